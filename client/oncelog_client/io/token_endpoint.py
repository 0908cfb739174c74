"""The token endpoint of an issuer: one POST in a thread, with limits of time and size.

The import takes 20 ms, so only a client with `sasl.oauthbearer.token.endpoint.url` imports this
module.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from oncelog_client.core.oauth_token import OAuthTokenError
from oncelog_client.errors import ConfigError

URL: Final = "sasl.oauthbearer.token.endpoint.url"
MOST_BYTES: Final = 1024 * 1024
POST_S: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}


class HttpResponse(NamedTuple):
    status: int
    body: bytes


class TokenEndpoint:
    """An https URL, or http of this computer. `context` has the certificates that https trusts, the
    system's by default. Redirects are not followed, because the request has a secret. Raises
    ConfigError for other URLs."""

    def __init__(
        self, url: str, context: ssl.SSLContext | None = None, timeout_s: float = POST_S
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigError(f"{URL} is not a URL") from None
        host = parts.hostname
        if "@" in parts.netloc:
            raise ConfigError(f"{URL} must not contain a user name or a password")
        if parts.scheme not in _PORTS or not host or port == 0:
            raise ConfigError(f"{URL}={url!r}: must be an https: URL")
        if not (url.isascii() and url.isprintable()) or " " in url:
            raise ConfigError(f"{URL}={url!r}: percent-encode the characters of the URL")
        if parts.scheme == "http" and not _is_loopback(host):
            raise ConfigError(
                f"{URL}={url!r}: http is allowed only for this computer, because it shows the"
                " client's secret to the network. Use https"
            )
        self.url = url
        self._host = host
        self._port = port or _PORTS[parts.scheme]
        self._path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        self._timeout_s = timeout_s
        self._context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._context = context or ssl.create_default_context()

    def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a form and return the response. Blocks for at most about `timeout_s`. Raises
        OAuthTokenError, which is retriable, if there is no whole response."""
        deadline = monotonic() + self._timeout_s
        try:
            response = self._post(headers, body, deadline)
        except (OSError, HTTPException, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            if monotonic() >= deadline:
                reason = f"no whole response within {self._timeout_s:g} s"
            raise OAuthTokenError(
                f"the token endpoint {self.url} is unavailable: {reason}", is_retriable=True
            ) from None
        if len(response.body) > MOST_BYTES:
            raise OAuthTokenError(
                f"the response of the token endpoint {self.url} has more than {MOST_BYTES} bytes"
            )
        return response

    def _post(self, headers: Mapping[str, str], body: bytes, deadline: float) -> HttpResponse:
        connecting = socket.create_connection((self._host, self._port), self._timeout_s)
        if self._context is None:
            connection = HTTPConnection(self._host, self._port)
        else:
            connection = HTTPSConnection(self._host, self._port, context=self._context)
        with connecting as plain:
            connected = plain
            if self._context is not None:
                # The handshake is separate, so that the deadline ends it, too.
                connected = self._context.wrap_socket(
                    plain, server_hostname=self._host, do_handshake_on_connect=False
                )
            with connected, _ended_at(deadline, connected):
                if isinstance(connected, ssl.SSLSocket):
                    connected.do_handshake()
                connection.sock = connected
                connection.request("POST", self._path, body, {**headers, "Connection": "close"})
                with connection.getresponse() as response:
                    received = response.read(MOST_BYTES + 1)
                    # A body that the deadline has cut off looks like a short one.
                    _left(deadline)
                    return HttpResponse(response.status, received)


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


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
