"""asyncio's streams over rc3: a Transport of asyncio around a stream that Rust polls.

Invariant: the transport reads only while the protocol wants more, and holds bytes to write only while Rust takes none, so
that both directions have backpressure.
"""

from __future__ import annotations

import asyncio
import collections
import os
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Union

from . import _rc3

# As asyncio's: bytes to write from which on a writer waits in drain().
_HIGH_WATER = 64 * 1024
# As asyncio's: half of the bytes that a StreamReader stores.
_LIMIT = 64 * 1024

StrPath = Union[str, "os.PathLike[str]"]
_Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Union[Awaitable[None], None]]


class _Loop:
    """The transports of an event loop, which Rust wakes by a descriptor."""

    # Only the loop, by its reader, and the transports hold a value: a loop that ends takes its streams along.
    _of: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Loop]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.wakeups = _rc3.Wakeups()
        # Until their connections are lost, as the selector of a loop holds its transports.
        self.transports: dict[int, _Transport] = {}
        loop.add_reader(self.wakeups.fileno(), self._wake)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Loop:
        found = cls._of.get(loop, lambda: None)()
        if found is None:
            found = cls(loop)
            cls._of[loop] = weakref.ref(found)
        return found

    def _wake(self) -> None:
        for stream, writing in self.wakeups.take():
            transport = self.transports.get(stream)
            if transport is not None:
                transport._wake(writing)


class _Transport(asyncio.Transport):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, stream: _rc3.Stream, protocol: asyncio.Protocol
    ) -> None:
        local, peer = stream.local(), stream.peer()
        super().__init__({"peername": peer, "sockname": local, "rc3": stream.is_rc3()})
        self._loop, self._stream, self._protocol = loop, stream, protocol
        self._reading = self._paused = self._ended = False
        self._pending: collections.deque[bytes] = collections.deque()
        # Bytes in `_pending`, and how many of the first are written.
        self._size = self._offset = 0
        self._blocked = self._eof = self._closing = self._lost = self._protocol_paused = False
        self.set_write_buffer_limits()
        self._all = _Loop.of(loop)
        self._all.transports[stream.id] = self
        try:
            protocol.connection_made(self)
        except BaseException:
            self.abort()
            raise
        self._read_soon()

    def _wake(self, writing: bool) -> None:
        if writing:
            self._loop.call_soon(self._write_ready)
        else:
            self._read_soon()

    # Reading

    def _read_soon(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._read_ready)

    def _read_ready(self) -> None:
        self._reading = False
        if self._paused or self._ended or self._closing:
            return
        try:
            data = self._stream.read()
        except OSError as error:
            self._lose(error)
            return
        if data is None:
            return
        if data:
            self._protocol.data_received(data)
            # Others have their turn first.
            self._read_soon()
            return
        self._ended = True
        if not self._protocol.eof_received():
            self.close()

    def is_reading(self) -> bool:
        return not (self._paused or self._closing or self._ended)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._read_soon()

    # Writing

    def write(self, data: Any) -> None:
        # A number would be that many zeros.
        data = data if isinstance(data, bytes) else bytes(memoryview(data))
        if self._eof:
            raise RuntimeError("cannot write after write_eof()")
        if not data or self._closing:
            return
        self._pending.append(data)
        self._size += len(data)
        if self._blocked:
            self._apply_limits()
        else:
            self._write_ready()

    def _write_ready(self) -> None:
        self._blocked = False
        while self._pending and not self._lost:
            first = self._pending[0]
            try:
                written = self._stream.write(first, self._offset)
            except OSError as error:
                self._lose(error)
                return
            if written is None:
                self._blocked = True
                break
            self._size -= written
            self._offset += written
            if self._offset == len(first):
                self._pending.popleft()
                self._offset = 0
        self._apply_limits()
        if not self._pending and not self._lost:
            if self._closing:
                self._finish_close()
            elif self._eof:
                self._stream.finish()

    def _apply_limits(self) -> None:
        if self._size > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()
        elif self._size <= self._low and self._protocol_paused:
            self._protocol_paused = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be at least low ({low}), which must not be negative")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._size

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._eof or self._closing:
            return
        self._eof = True
        if not self._pending:
            self._stream.finish()

    # Closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._pending:
                self._finish_close()

    def _finish_close(self) -> None:
        """Closes the connection once the peer has everything."""

        def closed(kind: str, value: Any) -> None:
            try:
                self._loop.call_soon_threadsafe(self._lose, value if kind == "error" else None)
            except RuntimeError:
                pass  # The loop is closed.

        self._stream.close(closed)

    def abort(self) -> None:
        if not self._lost:
            self._stream.abort()
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._pending.clear()
        self._size = 0
        del self._all.transports[self._stream.id]
        self._loop.call_soon(self._protocol.connection_lost, error)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


async def _call(start: Callable[[Callable[[str, Any], None]], _rc3.Operation]) -> Any:
    """The value of an operation."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(kind: str, value: Any) -> None:
        if not future.done():
            future.set_exception(value) if kind == "error" else future.set_result(value)

    def report(kind: str, value: Any) -> None:
        try:
            loop.call_soon_threadsafe(settle, kind, value)
        except RuntimeError:
            pass  # The loop is closed.

    operation = start(report)
    try:
        return await future
    finally:
        operation.stop()


async def _resolve(host: str | None, port: int, flags: int = 0) -> list[str]:
    """Addresses with port, as Rust reads them; without a host, all of this one's."""
    loop = asyncio.get_running_loop()
    found = []
    if host is not None:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=flags)
    addresses: list[tuple[Any, Any]] = [address[4][:2] for address in found] or [("::", port), ("0.0.0.0", port)]
    return [f"[{ip}]:{port}" if ":" in str(ip) else f"{ip}:{port}" for ip, port in addresses]


async def open_connection(
    host: str,
    port: int,
    *,
    server_name: str | None = None,
    ca: StrPath | None = None,
    limit: int = _LIMIT,
    idle_timeout: float = 30.0,
    rlp: str = "guard",
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a server of :func:`start_server` or of ``rc3_net::Listener``; as ``asyncio.open_connection``.

    The server's certificate must name ``server_name``, by default ``host``, and lead to the certificates in the PEM file
    ``ca``, by default to those of the system. After ``idle_timeout`` seconds without any packet the peer counts as gone.

    ``writer.close()`` ends both directions, ``writer.wait_closed()`` waits until the peer has everything, and
    ``writer.write_eof()`` ends only this direction. ``writer.get_extra_info("rc3")`` is false if the peer supports only
    plain QUIC.

    Raises ``OSError``, and ``ValueError`` for an ``rlp`` or ``idle_timeout`` that makes no sense.
    """
    loop = asyncio.get_running_loop()
    addresses, name = await _resolve(host, port), server_name or host
    trusted, wakeups = None if ca is None else os.fspath(ca), _Loop.of(loop).wakeups
    stream = await _call(
        lambda report: _rc3.connect(addresses, name, trusted, idle_timeout, rlp, wakeups, report)
    )
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport = _Transport(loop, stream, protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Server:
    """What :func:`start_server` returns; in the shape of ``asyncio.Server``."""

    def __init__(self, listener: _rc3.Listener, connected: _Connected, limit: int) -> None:
        self._listener, self._connected, self._limit = listener, connected, limit
        self._task = asyncio.get_running_loop().create_task(self._accept())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        wakeups = _Loop.of(loop).wakeups
        while True:
            stream = await _call(lambda report: self._listener.accept(wakeups, report))
            reader = asyncio.StreamReader(limit=self._limit, loop=loop)
            protocol = asyncio.StreamReaderProtocol(reader, self._connected, loop=loop)
            try:
                _Transport(loop, stream, protocol)
            except Exception as error:
                # It ends its own stream only.
                message = "client_connected_cb failed; its stream is aborted"
                loop.call_exception_handler({"message": message, "exception": error, "protocol": protocol})

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._listener.address()

    def is_serving(self) -> bool:
        """Whether it accepts connections."""
        return not self._task.done()

    def close(self) -> None:
        """Accepts no more connections. Those that are open continue."""
        self._listener.close()
        self._task.cancel()

    async def wait_closed(self) -> None:
        """Waits until it accepts no more connections."""
        await asyncio.wait([self._task])

    async def serve_forever(self) -> None:
        """Runs until it is cancelled, and closes then.

        Raises ``OSError`` once the port is lost.
        """
        try:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
        finally:
            self.close()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()
        await self.wait_closed()


async def start_server(
    client_connected_cb: _Connected,
    host: str | None,
    port: int,
    *,
    certificate: StrPath,
    key: StrPath,
    limit: int = _LIMIT,
    idle_timeout: float = 30.0,
    rlp: str = "guard",
) -> Server:
    """Calls ``client_connected_cb(reader, writer)`` for each connection; as ``asyncio.start_server``.

    ``certificate`` and ``key`` are PEM files. Without a host it listens on all addresses, with port 0 on any free port:
    see :attr:`Server.address`.

    Raises ``OSError``, and ``ValueError`` for an ``rlp`` or ``idle_timeout`` that makes no sense.
    """
    addresses = await _resolve(host, port, socket.AI_PASSIVE)
    listener = _rc3.Listener(addresses, os.fspath(certificate), os.fspath(key), idle_timeout, rlp)
    return Server(listener, client_connected_cb, limit)
