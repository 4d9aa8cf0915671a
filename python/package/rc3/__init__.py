"""Verified file transfer over wide-area links, and asyncio streams over QUIC with RC3.

Files: :class:`Receiver`, :func:`send`, :func:`copy`, each blocking and for asyncio. Streams: :func:`open_connection` and
:func:`start_server`, in the shape of asyncio's.
"""

from ._errors import (
    ConflictError,
    ConnectionError,
    Error,
    LeftOutError,
    NotVerifiedError,
    RefusedError,
    UsageError,
)
from ._options import CopyOptions, ReceiverOptions, SendOptions
from ._streams import Server, open_connection, start_server
from ._transfer import Progress, Receiver, Summary, copy, copy_async, send, send_async

__all__ = [
    "ConflictError",
    "ConnectionError",
    "CopyOptions",
    "Error",
    "LeftOutError",
    "NotVerifiedError",
    "Progress",
    "Receiver",
    "ReceiverOptions",
    "RefusedError",
    "SendOptions",
    "Server",
    "Summary",
    "UsageError",
    "copy",
    "copy_async",
    "open_connection",
    "send",
    "send_async",
    "start_server",
]
