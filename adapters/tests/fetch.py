"""A client of plain HTTP/3 by aioquic: `fetch.py PORT CERTIFICATE`.

Prints a line for each request: its path, the status, the number of bytes and their SHA-256; or the code of its reset.
"""

import asyncio
import hashlib
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamReset


class Response:
    def __init__(self):
        self.status = None
        self.body = bytearray()
        self.over = asyncio.get_running_loop().create_future()


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses = {}

    async def ask(self, method, path, body=b"", more=()):
        stream = self._quic.get_next_available_stream_id()
        response = self.responses[stream] = Response()
        fields = {b":method": method, b":scheme": b"https", b":authority": b"localhost", b":path": path.encode()}
        self.http.send_headers(stream, [*fields.items(), *more], end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        code = await response.over
        if code is not None:
            print(path, "reset", code, flush=True)
            return
        digest = hashlib.sha256(response.body).hexdigest()
        print(path, response.status, len(response.body), digest, flush=True)

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.responses[event.stream_id].over.set_result(event.error_code)
            return
        for received in self.http.handle_event(event):
            response = self.responses.get(getattr(received, "stream_id", None))
            if isinstance(received, HeadersReceived):
                response.status = dict(received.headers)[b":status"].decode()
            elif isinstance(received, DataReceived):
                response.body += received.data
            if getattr(received, "stream_ended", False):
                response.over.set_result(None)


async def main(port, certificate):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
    configuration.load_verify_locations(certificate)
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
        await client.ask(b"GET", "/transport")
        await client.ask(b"GET", "/bytes/2000000")
        await client.ask(b"POST", "/echo", bytes(at % 251 for at in range(1_000_000)))
        await client.ask(b"GET", "/chunked", more=[(b"transfer-encoding", b"chunked")])
        await client.ask(b"GET", "/late", more=[(b"accept", b"*/*"), (b":path", b"/transport")])
        await client.ask(b"POST", "/echo", b"abc", more=[(b"content-length", b"4")])


asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
