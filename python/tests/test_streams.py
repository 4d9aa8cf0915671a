"""asyncio's streams over loopback."""

import asyncio
import gc
import os
import resource
import time
from contextlib import asynccontextmanager

import pytest
import rc3

PATIENCE = 60

PEER = """
import asyncio, sys, rc3
async def main():
    reader, writer = await rc3.open_connection("127.0.0.1", int(sys.argv[1]), server_name="localhost", ca=sys.argv[2])
    writer.write(b"here\\n")
    await reader.read()
asyncio.run(main())
"""


def run(main):
    asyncio.run(asyncio.wait_for(main, PATIENCE))


@asynccontextmanager
async def connected(identity, serve, **options):
    """A connection to a server with this callback."""
    server = await rc3.start_server(
        serve, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key, **options
    )
    async with server:
        reader, writer = await rc3.open_connection(
            "127.0.0.1", server.address[1], server_name="localhost", ca=identity.ca, **options
        )
        yield reader, writer
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            pass  # Tests that end the connection from the other side.


async def echo(reader, writer):
    while data := await reader.read(100_000):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_ten_megabytes_go_both_ways_at_once(identity):
    async def main():
        sent = os.urandom(10_000_000)
        async with connected(identity, echo) as (reader, writer):

            async def write():
                for at in range(0, len(sent), 50_000):
                    writer.write(sent[at : at + 50_000])
                    await writer.drain()
                writer.write_eof()

            _, received = await asyncio.gather(write(), reader.read())
            assert received == sent

    run(main())


def test_the_server_may_send_first_and_half_closed_streams_go_on(identity):
    async def serve(reader, writer):
        writer.write(b"hello\n")
        writer.write_eof()
        with pytest.raises(RuntimeError):
            writer.write(b"more")
        received.set_result(await reader.read())
        writer.close()

    async def main():
        nonlocal received
        received = asyncio.get_running_loop().create_future()
        async with connected(identity, serve) as (reader, writer):
            assert writer.can_write_eof() and writer.get_extra_info("rc3") is True
            assert writer.get_extra_info("peername")[0] == "127.0.0.1"
            assert await reader.readline() == b"hello\n"
            assert await reader.read() == b""
            # The other direction is still open.
            await asyncio.sleep(0.1)
            writer.writelines([b"and ", bytearray(b"back "), memoryview(b"again")])
            writer.write_eof()
            assert await received == b"and back again"

    received = None
    run(main())


def test_a_cancelled_read_leaves_the_stream_usable(identity):
    async def main():
        async with connected(identity, echo) as (reader, writer):
            for length in range(1, 6):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.readexactly(length), 0.02)
                writer.write(b"x" * length)
                assert await reader.readexactly(length) == b"x" * length

    run(main())


def test_a_thousand_small_writes_arrive_in_order(identity):
    async def main():
        async with connected(identity, echo) as (reader, writer):
            for number in range(1000):
                writer.write(b"%d\n" % number)
            for number in range(1000):
                assert await reader.readline() == b"%d\n" % number

    run(main())


def test_a_reader_that_does_not_read_stops_the_writer(identity):
    async def serve(reader, writer):
        connections.append((reader, writer))

    async def main():
        async with connected(identity, serve) as (_, writer):
            piece, written = bytes(100_000), 0
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with pytest.raises(asyncio.TimeoutError):
                while True:
                    writer.write(piece)
                    written += len(piece)
                    assert writer.transport.get_write_buffer_size() < 200_000
                    await asyncio.wait_for(writer.drain(), 1)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            # Three windows of 16 MiB, which both ends of this process fill.
            assert 1_000_000 < written < 60_000_000
            assert grown < 150_000, f"{grown} KiB"
            # Once it reads, all of it arrives.
            reader, back = connections[0]
            writer.write_eof()
            assert len(await reader.read()) == written
            back.close()

    connections = []
    run(main())


def test_the_end_of_a_killed_peer_is_noticed(identity, python):
    async def serve(reader, writer):
        assert await reader.readline() == b"here\n"
        arrived.set_result(None)
        try:
            outcome.set_result(await reader.read())
        except OSError as error:
            outcome.set_result(error)
        writer.close()

    async def main():
        nonlocal arrived, outcome
        loop = asyncio.get_running_loop()
        arrived, outcome = loop.create_future(), loop.create_future()
        async with await rc3.start_server(
            serve, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key, idle_timeout=1.0
        ) as server:
            process = python(PEER, server.address[1], identity.ca)
            await arrived
            process.kill()
            began = time.monotonic()
            assert isinstance(await outcome, OSError)
            assert time.monotonic() - began < 10

    arrived = outcome = None
    run(main())


def test_an_abort_is_an_error_at_the_other_end(identity):
    async def serve(reader, writer):
        await reader.readline()
        writer.transport.abort()

    async def main():
        async with connected(identity, serve) as (reader, writer):
            writer.write(b"go\n")
            with pytest.raises(ConnectionError):
                await reader.read()

    run(main())


def test_close_delivers_what_was_written(identity):
    async def serve(reader, writer):
        writer.write(content)
        writer.close()
        await writer.wait_closed()

    async def main():
        async with connected(identity, serve) as (reader, _):
            await asyncio.sleep(0.3)
            assert await reader.read() == content

    content = os.urandom(5_000_000)
    run(main())


def test_other_certificates_and_names_are_not_trusted(identity):
    async def main():
        server = await rc3.start_server(
            echo, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key
        )
        async with server:
            port = server.address[1]
            with pytest.raises(OSError, match="certificate"):
                await rc3.open_connection("127.0.0.1", port, server_name="other", ca=identity.ca)
            with pytest.raises(OSError, match="certificate"):
                await rc3.open_connection("127.0.0.1", port, server_name="localhost")
            with pytest.raises(OSError, match="no-such-file"):
                await rc3.open_connection("127.0.0.1", port, ca="no-such-file")
        with pytest.raises(OSError):
            await rc3.start_server(echo, "127.0.0.1", 0, certificate=identity.key, key=identity.key)

    run(main())


def test_a_connect_can_be_cancelled_and_a_closed_server_takes_nobody(identity):
    async def main():
        server = await rc3.start_server(
            echo, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key
        )
        port = server.address[1]
        serving = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0.1)
        assert server.is_serving()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        await server.wait_closed()
        assert not server.is_serving()
        connecting = rc3.open_connection("127.0.0.1", port, server_name="localhost", ca=identity.ca)
        with pytest.raises((OSError, asyncio.TimeoutError)):
            await asyncio.wait_for(connecting, 1)

    run(main())


def test_a_hundred_connections_share_a_loop(identity):
    async def main():
        server = await rc3.start_server(
            echo, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key
        )

        async def talk(number):
            reader, writer = await rc3.open_connection(
                "127.0.0.1", server.address[1], server_name="localhost", ca=identity.ca
            )
            text = b"%d" % number * 1000
            writer.write(text)
            writer.write_eof()
            assert await reader.read() == text
            writer.close()
            await writer.wait_closed()

        async with server:
            await asyncio.gather(*map(talk, range(100)))

    run(main())


def test_a_loop_that_ends_before_its_streams_ends_them(identity):
    async def serve(reader, writer):
        try:
            await reader.read()
        except OSError:
            pass
        ended.put_nowait(None)
        writer.close()

    def leave(port):
        async def connect():
            return await rc3.open_connection("127.0.0.1", port, server_name="localhost", ca=identity.ca)

        asyncio.run(connect())
        gc.collect()

    async def main():
        nonlocal ended
        ended = asyncio.Queue()
        async with await rc3.start_server(
            serve, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key
        ) as server:
            for _ in range(8):
                await asyncio.to_thread(leave, server.address[1])
                await asyncio.wait_for(ended.get(), 5)
                open_files.append(len(os.listdir("/proc/self/fd")))

    ended, open_files = None, []
    run(main())
    # Streams of the last loop may be closing.
    assert open_files[-1] <= open_files[0] + 4


def test_an_exception_in_a_callback_ends_only_its_stream(identity):
    def serve(reader, writer):
        accepted.append(writer)
        if len(accepted) == 1:
            raise ZeroDivisionError
        writer.write(b"served")
        writer.close()

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        async with connected(identity, serve) as (first, writer):
            with pytest.raises(ConnectionError):
                await first.read()
            second, _ = await rc3.open_connection(
                *writer.get_extra_info("peername"), server_name="localhost", ca=identity.ca
            )
            assert await second.read() == b"served"
        assert [type(failure) for failure in failures] == [ZeroDivisionError]

    accepted, failures = [], []
    run(main())


def test_a_lost_port_ends_serve_forever_with_an_error(identity):
    async def main():
        server = await rc3.start_server(
            echo, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key
        )
        serving = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0.1)
        server._listener.close()
        with pytest.raises(OSError):
            await asyncio.wait_for(serving, 5)

    run(main())


def test_a_closed_server_frees_its_port(identity):
    async def main():
        files = {"certificate": identity.certificate, "key": identity.key}
        server = await rc3.start_server(echo, "127.0.0.1", 0, **files)
        host, port = server.address
        server.close()
        await server.wait_closed()
        again = None
        for _ in range(50):
            try:
                again = await rc3.start_server(echo, host, port, **files)
                break
            except OSError:
                await asyncio.sleep(0.1)
        assert again and again.address == server.address
        again.close()

    run(main())


def test_the_longest_idle_timeout_is_no_limit(identity):
    async def main():
        async with connected(identity, echo, idle_timeout=1e19) as (reader, writer):
            writer.write(b"here")
            writer.write_eof()
            assert await reader.read() == b"here"

    run(main())


def test_arguments_that_make_no_sense_do_nothing(identity):
    async def main():
        async with connected(identity, echo) as (reader, writer):
            for wrong in (5, 0, "text", None):
                with pytest.raises(TypeError):
                    writer.write(wrong)
            writer.write(memoryview(b"12345")[::2])
            assert await reader.readexactly(3) == b"135"
        for wrong in ({"rlp": "bogus"}, {"idle_timeout": -1}, {"idle_timeout": 0.0001}):
            with pytest.raises(ValueError):
                await rc3.open_connection("127.0.0.1", 1, ca=identity.ca, **wrong)
            with pytest.raises(ValueError):
                await rc3.start_server(
                    echo, "127.0.0.1", 0, certificate=identity.certificate, key=identity.key, **wrong
                )

    run(main())
