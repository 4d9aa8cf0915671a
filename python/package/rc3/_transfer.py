"""Files: the commands `rc3 send`, `rc3 recv` and `rc3 copy` as functions.

Each call becomes an operation in Rust, which reports events and its end to a queue. The caller reads the queue, so
progress callbacks run in the caller's thread, and an exception there, a KeyboardInterrupt or a cancellation ends the
operation.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Union

from . import _rc3
from ._errors import failure
from ._options import CopyOptions, ReceiverOptions, SendOptions

if TYPE_CHECKING:
    # Of Python 3.11; type checkers have it for earlier ones.
    from typing_extensions import Unpack

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Progress = Callable[[dict[str, Any]], object]
_Report = Callable[[str, Any], object]
_Start = Callable[[_Report], "_rc3.Operation"]

# Seconds for an interrupted operation to tell the other side.
_PATIENCE = 0.8


@dataclass(frozen=True)
class Summary:
    """A complete transfer."""

    #: Files, without directories.
    files: int
    #: Files that already existed with the same content.
    unchanged_files: int
    #: Bytes of all files.
    bytes: int
    #: Time from the agreement on what to send to the last file in place.
    seconds: float
    #: Bytes that the primary loop carried.
    primary_bytes: int
    #: Bytes by RLP level, level 1 first.
    rlp_bytes: list[int]
    #: Bytes carried twice.
    duplicate_bytes: int


_SUMMARY = [each.name for each in fields(Summary)]


class _Messages:
    """Turns what an operation reports into callbacks and a result."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.summary: Summary | None = None
        # Whether the operation has ended, so that no more arrives.
        self.ended = False

    def handle(self, kind: str, value: Any) -> bool:
        """Handles one report; returns whether it was the last."""
        self.ended = kind != "event"
        if kind == "failed":
            raise failure(*value)
        if kind == "event":
            event = json.loads(value)
            if event["event"] == "done":
                self.summary = Summary(**{name: event[name] for name in _SUMMARY})
            if self.progress is not None:
                self.progress(event)
        return self.ended


def _run(start: _Start, progress: Progress | None = None) -> Summary | None:
    """Runs an operation; waiting releases the GIL."""
    arriving: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    messages = _Messages(progress)
    operation = start(lambda *report: arriving.put(report))
    try:
        while not messages.handle(*arriving.get()):
            pass
    except BaseException:
        if messages.ended:
            raise
        operation.stop()
        until = time.monotonic() + _PATIENCE
        try:
            while arriving.get(timeout=max(0.0, until - time.monotonic()))[0] == "event":
                pass
        except queue.Empty:
            pass
        raise
    return messages.summary


async def _run_async(start: _Start, progress: Progress | None = None) -> Summary | None:
    """Runs an operation without blocking the event loop."""
    loop = asyncio.get_running_loop()
    arriving: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    messages = _Messages(progress)

    def report(*report: Any) -> None:
        try:
            loop.call_soon_threadsafe(arriving.put_nowait, report)
        except RuntimeError:
            pass  # The loop is closed.

    operation = start(report)
    try:
        while not messages.handle(*await arriving.get()):
            pass
    except BaseException:
        if messages.ended:
            raise
        operation.stop()
        try:
            await asyncio.wait_for(_end(arriving), _PATIENCE)
        except asyncio.TimeoutError:
            pass
        raise
    return messages.summary


async def _end(arriving: asyncio.Queue[tuple[str, Any]]) -> None:
    while (await arriving.get())[0] == "event":
        pass


def _path(path: Path) -> Path:
    """A path that the command line takes for a path: neither an option nor standard input."""
    path = os.fspath(path)
    dash, here = (b"-", b"./") if isinstance(path, bytes) else ("-", "./")
    return here + path if path.startswith(dash) else path  # type: ignore[arg-type, operator]


def _several(paths: Path | Iterable[Path]) -> list[Path]:
    return [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)


def _words(command: str, options: Mapping[str, object], *positional: Path) -> list[Any]:
    """The command line with these options; `None` and `False` are the command's defaults."""
    words: list[Any] = [command]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [f"{flag}={each}" for each in value]
        elif value is not None and value is not False:
            value = os.fspath(value) if isinstance(value, os.PathLike) else value
            words.append(flag + "=" + (os.fsdecode(value) if isinstance(value, bytes) else str(value)))
    # Arbitrary bytes pass as the file system's names do.
    return [os.fsdecode(word) for word in (*words, "--", *positional)]


def _start(words: list[Any]) -> _Start:
    return lambda report: _rc3.transfer(words, report)


def _send(paths: Path | Iterable[Path], ticket: str, options: SendOptions) -> _Start:
    # A dash would stand for standard input.
    if not ticket.startswith("rc3://"):
        raise failure("UsageError", "not a ticket", "pass the line that the receiver printed: rc3://...", 2)
    return _start(_words("send", options, *map(_path, _several(paths)), ticket.strip()))


def send(
    paths: Path | Iterable[Path], ticket: str, *, progress: Progress | None = None, **options: Unpack[SendOptions]
) -> Summary | None:
    """Sends files and directories to the receiver with this ticket, and returns once all are verified and in place.

    ``options`` are those of :class:`SendOptions`, which ``rc3 send --help`` describes.

    ``progress`` gets each event of ``rc3 send --json`` as a dictionary, in this thread.

    Raises a subclass of :class:`Error`. After an interruption, the same call sends only what is missing. The result is
    ``None`` for a dry run.
    """
    return _run(_send(paths, ticket, options), progress)


async def send_async(
    paths: Path | Iterable[Path], ticket: str, *, progress: Progress | None = None, **options: Unpack[SendOptions]
) -> Summary | None:
    """As :func:`send`, for asyncio. Cancelling it ends the transfer."""
    return await _run_async(_send(paths, ticket, options), progress)


def _copy(sources: Path | Iterable[Path], destination: Path, options: CopyOptions) -> _Start:
    return _start(_words("copy", options, *_several(sources), destination))


def copy(
    sources: Path | Iterable[Path], destination: Path, *, progress: Progress | None = None, **options: Unpack[CopyOptions]
) -> Summary | None:
    """Copies files from or to another host, where ssh starts ``rc3``: ``copy("big.iso", "host:/data/")``.

    One side is ``HOST:PATH`` or ``USER@HOST:PATH``. ``options`` are those of :class:`CopyOptions`, which ``rc3 copy
    --help`` describes. What ssh asks or prints appears on the terminal. Otherwise as :func:`send`.
    """
    return _run(_copy(sources, destination, options), progress)


async def copy_async(
    sources: Path | Iterable[Path], destination: Path, *, progress: Progress | None = None, **options: Unpack[CopyOptions]
) -> Summary | None:
    """As :func:`copy`, for asyncio. Cancelling it ends the copy."""
    return await _run_async(_copy(sources, destination, options), progress)


class Receiver:
    """A port with a ticket, with which others send files into a directory.

    Anyone with the ticket can send files: treat it like a password. ``options`` are those of :class:`ReceiverOptions`,
    which ``rc3 recv --help`` describes.

    Use it in ``with`` or ``async with``, and iterate over it for transfer after transfer::

        with rc3.Receiver("incoming") as receiver:
            print(receiver.ticket)
            summary = receiver.recv()
    """

    def __init__(self, directory: Path, **options: Unpack[ReceiverOptions]) -> None:
        try:
            self._receiver = _rc3.Receiver(_words("recv", {"dir": directory, **options}))
        except ValueError as error:
            raise failure(*error.args) from None

    @property
    def ticket(self) -> str:
        """The line for the sender."""
        return self._receiver.ticket

    def recv(self, *, progress: Progress | None = None) -> Summary | None:
        """Waits for a sender and receives one complete transfer.

        A transfer that fails is reported as the event ``error`` and leaves the receiver waiting. An interrupted call, by
        KeyboardInterrupt for example, keeps what arrived; the receiver can be used again. A sender that arrives between
        two calls waits for some seconds. The result is ``None`` for a stream from a pipe.
        """
        return _run(self._receiver.recv, progress)

    async def recv_async(self, *, progress: Progress | None = None) -> Summary | None:
        """As :meth:`recv`, for asyncio. Cancelling it interrupts it."""
        return await _run_async(self._receiver.recv, progress)

    def close(self) -> None:
        """Ends a running :meth:`recv` and closes the port."""
        _run(self._receiver.close)

    async def close_async(self) -> None:
        """As :meth:`close`, for asyncio."""
        await _run_async(self._receiver.close)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Receiver:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close_async()

    def __iter__(self) -> Iterator[Summary | None]:
        while True:
            yield self.recv()

    async def __aiter__(self) -> AsyncIterator[Summary | None]:
        while True:
            yield await self.recv_async()
