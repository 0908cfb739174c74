"""One HTTP request in a thread, with limits of time and size: to the endpoints of OAUTHBEARER.

The import takes 20 ms, so only a process with such an endpoint imports this module.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import SplitResult

PORTS: Final = {"http": 80, "https": 443}
"""The schemes that are supported, with their ports."""
MOST_BYTES: Final = 1024 * 1024
"""The largest body of a response that is of use."""
FAILURES: Final = (OSError, HTTPException, ValueError)
"""What `exchange` raises. After the deadline, the error of the socket may be any of these."""


class HttpResponse(NamedTuple):
    """`body` has at most one byte more than MOST_BYTES. `location` is the header Location, None
    without it."""

    status: int
    body: bytes
    location: str | None = None


class HttpRequest(NamedTuple):
    """A request for a URL of http or https with a host. The environment's proxies are not used, as
    in Kafka. `headers` are those besides Host, Content-Length and Connection."""

    method: str
    url: SplitResult
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.url.hostname or "", self.url.port or PORTS[self.url.scheme]

    @property
    def path(self) -> str:
        path = self.url.path or "/"
        return f"{path}?{self.url.query}" if self.url.query else path


def exchange(request: HttpRequest, context: ssl.SSLContext | None, deadline: float) -> HttpResponse:
    """Send a request and return its response. Blocks until the `deadline` (s, monotonic) at most.

    `context` has the certificates that https trusts; it is None for http. Raises FAILURES.
    """
    host, port = request.address
    connecting = socket.create_connection((host, port), _left(deadline))
    if context is None:
        connection = HTTPConnection(host, port)
    else:
        connection = HTTPSConnection(host, port, context=context)
    with connecting as plain:
        connected = plain
        if context is not None:
            # The handshake is separate, so that the deadline ends it, too.
            connected = context.wrap_socket(
                plain, server_hostname=host, do_handshake_on_connect=False
            )
        with connected, _ended_at(deadline, connected):
            if isinstance(connected, ssl.SSLSocket):
                connected.do_handshake()
            connection.sock = connected
            headers = {**request.headers, "Connection": "close"}
            connection.request(request.method, request.path, request.body, headers)
            with connection.getresponse() as response:
                body = response.read(MOST_BYTES + 1)
                # A body that the deadline has cut off looks like a short one.
                _left(deadline)
                return HttpResponse(response.status, body, response.getheader("Location"))


@contextmanager
def _ended_at(deadline: float, connected: socket.socket) -> Iterator[None]:
    """Shut the socket at the deadline. The timeout of a socket is only for a single byte, and would
    start again with each."""

    def end() -> None:
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)

    timer = threading.Timer(_left(deadline), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left
