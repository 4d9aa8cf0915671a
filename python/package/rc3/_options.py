"""The options of the commands, with underscores for dashes. ``rc3 send --help`` and the others describe them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypedDict, Union

_File = Union[str, "os.PathLike[str]"]


class _Options(TypedDict, total=False):
    rlp: Literal["guard", "trust", "off"]
    marks: Literal["auto", "le", "cs1", "none", "raised", "per-level"]
    path_memory: _File
    no_path_memory: bool
    #: A time with a unit, such as ``"20s"``.
    give_up_after: str
    qlog: _File


class _Sending(_Options, total=False):
    links: bool
    include: Sequence[str]
    exclude: Sequence[str]
    #: A rate with a unit, such as ``"100mbit"``.
    rate_limit: str
    congestion: Literal["cubic", "newreno", "kickass"]
    background: bool
    hard_links: bool
    xattrs: bool
    acls: bool


class _Receiving(_Options, total=False):
    force: bool
    keep_both: bool
    quick_check: bool
    discard_partial: bool


class SendOptions(_Sending, total=False):
    """Options of :func:`rc3.send`."""

    dry_run: bool
    mtu: int
    no_port_mapping: bool


class ReceiverOptions(_Receiving, total=False):
    """Options of :class:`rc3.Receiver`."""

    #: ``"IP:PORT"``, ``"IP"`` or ``":PORT"``.
    bind: str
    #: ``"HOST"`` or ``"HOST:PORT"``.
    advertise: str
    identity: _File
    hard_links: bool
    xattrs: bool
    acls: bool
    no_port_mapping: bool
    fsync: Literal["none", "file", "end"] | bool


class CopyOptions(_Sending, _Receiving, total=False):
    """Options of :func:`rc3.copy`."""

    ssh: str
    rc3_path: str
    port: int | str
    address: str
    via_ssh: Literal["always", "auto", "never"] | bool
    no_port_mapping: bool
    fsync: bool
