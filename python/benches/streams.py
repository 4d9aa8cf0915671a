"""The rate of one asyncio stream, by rc3 and by TCP with TLS, one after the other, between two processes over loopback.

    python benches/streams.py [MEGABYTES [RUNS]]      (needs the package trustme)
"""

import asyncio
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rc3
import trustme

PIECE = bytes(64 * 1024)


async def serve(way: str, files: Path) -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        total = 0
        while data := await reader.read(1 << 18):
            total += len(data)
        writer.write(b"%d\n" % total)
        writer.close()
        await writer.wait_closed()

    if way == "rc3":
        server = await rc3.start_server(
            count, "127.0.0.1", 0, certificate=files / "certificate", key=files / "key"
        )
        port = server.address[1]
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files / "certificate", files / "key")
        # TLS over TCP has no half-closed streams: the client says how much it sends.
        server = await asyncio.start_server(
            lambda reader, writer: count_tls(reader, writer), "127.0.0.1", 0, ssl=context
        )
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await server.serve_forever()


async def count_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    expected = int(await reader.readline())
    total = 0
    while total < expected:
        total += len(await reader.read(1 << 18))
    writer.write(b"%d\n" % total)
    await writer.drain()
    writer.close()


async def send(way: str, port: int, files: Path, megabytes: int) -> float:
    count = megabytes * 1_000_000 // len(PIECE)
    if way == "rc3":
        reader, writer = await rc3.open_connection(
            "127.0.0.1", port, server_name="localhost", ca=files / "ca"
        )
    else:
        context = ssl.create_default_context(cafile=files / "ca")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        writer.write(b"%d\n" % (count * len(PIECE)))
    begin = time.perf_counter()
    for _ in range(count):
        writer.write(PIECE)
        await writer.drain()
    if way == "rc3":
        writer.write_eof()
    assert int(await reader.readline()) == count * len(PIECE)
    taken = time.perf_counter() - begin
    writer.close()
    return taken


def main(megabytes: int = 500, runs: int = 3) -> None:
    times: dict[str, list[float]] = {"rc3": [], "TCP+TLS": []}
    with tempfile.TemporaryDirectory() as directory:
        files, authority = Path(directory), trustme.CA()
        issued = authority.issue_cert("localhost")
        authority.cert_pem.write_to_path(files / "ca")
        issued.private_key_pem.write_to_path(files / "key")
        issued.cert_chain_pems[0].write_to_path(files / "certificate")
        for _ in range(runs):
            for way, taken in times.items():
                command = [sys.executable, __file__, "serve", way, directory]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                    port = int(server.stdout.readline())
                    taken.append(asyncio.run(send(way, port, files, megabytes)))
                    server.kill()
    for way, taken in times.items():
        print(f"{way:8} {megabytes / statistics.median(taken):6.1f} MB/s  of {[round(t, 2) for t in taken]} s")
    print(f"ratio {statistics.median(times['TCP+TLS']) / statistics.median(times['rc3']):.2f}")


if sys.argv[1:2] == ["serve"]:
    asyncio.run(serve(sys.argv[2], Path(sys.argv[3])))
else:
    main(*map(int, sys.argv[1:]))
