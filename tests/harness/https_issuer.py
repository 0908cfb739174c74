"""A web server on this computer that responds as a test says, with or without TLS."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trustme


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebServer:
    """`respond` gets a request and returns the bytes of the response, in pieces."""

    respond: Callable[[Request], Iterator[bytes]]
    scheme: str = "http"
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    def url(self, path: str = "/keys", host: str = "localhost") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


def response(body: bytes, status: int = 200, **headers: str) -> bytes:
    """Return a whole response."""
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(body: bytes, status: int = 200, **headers: str) -> Callable[[Request], Iterator[bytes]]:
    return lambda _: iter([response(body, status, **headers)])


@contextmanager
def serving(
    respond: Callable[[Request], Iterator[bytes]], authority: trustme.CA | None = None
) -> Iterator[WebServer]:
    """Serve until the block ends. With `authority`, the server speaks TLS for `localhost`."""
    web = WebServer(respond, "http" if authority is None else "https")

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            request = Request(self.command, self.path, dict(self.headers.items()), body)
            web.requests.append(request)
            self.close_connection = True
            try:
                for piece in web.respond(request):
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                pass  # The client has hung up, as some tests want.

        do_GET = do_POST = handle_request

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        # The thread of the connection makes the handshake, so that the server can accept others.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Return the context of a client that trusts the authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def dribbling(stop: threading.Event, head: bytes) -> Callable[[Request], Iterator[bytes]]:
    """Return a response that begins with `head` and gets one byte every 20 ms until `stop`."""

    def respond(_: Request) -> Iterator[bytes]:
        yield head
        while not stop.wait(0.02):
            yield b"x"

    return respond
