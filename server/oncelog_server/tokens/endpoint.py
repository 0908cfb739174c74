"""Reads the issuer's keys from the URL in `sasl.oauthbearer.jwks.endpoint.url`."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from oncelog_server.security.sasl.oauth_settings import JWKS_URL, OAuthSettingsError

MOST_BYTES: Final = 1024 * 1024
FETCH_S: Final = 10.0
_MOST_REDIRECTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}


class JwksUnavailable(Exception):
    """The keys could not be fetched. The message has the reason."""


class JwksEndpoint(Protocol):
    url: str

    def fetch(self) -> bytes:
        """Return the JWKS. Blocks for at most about `FETCH_S`, so it belongs into a thread. Raises
        JwksUnavailable."""
        ...


def endpoint_of(url: str, context: ssl.SSLContext | None = None) -> JwksEndpoint:
    """Return the endpoint of a URL: https, http of this computer only, or `file:`. `context` has
    the certificates that https trusts, the system's by default. Raises OAuthSettingsError.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise OAuthSettingsError(JWKS_URL, f"{JWKS_URL}: not a URL") from None
    if "@" in parts.netloc:
        # The URL is logged.
        raise OAuthSettingsError(JWKS_URL, f"{JWKS_URL} must not contain a user name or a password")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise OAuthSettingsError(
            JWKS_URL, f"{JWKS_URL}={url!r}: percent-encode the characters of the URL"
        )
    if parts.scheme == "file":
        return FileEndpoint(url, _path(url, parts))
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise OAuthSettingsError(JWKS_URL, f"{JWKS_URL}={url}: must be an https: or file: URL")
    if parts.scheme == "http":
        if not is_loopback(parts.hostname):
            raise OAuthSettingsError(
                JWKS_URL,
                f"{JWKS_URL}={url}: http is allowed only for this computer, because the network"
                " could replace the keys. Use https",
            )
        return HttpEndpoint(url, None)
    return HttpEndpoint(url, context or ssl.create_default_context())


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and the loopback addresses."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class FileEndpoint:
    """A JWKS in a file."""

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self._path = path

    def fetch(self) -> bytes:
        """Return the bytes of the file. Raises JwksUnavailable."""
        try:
            if not self._path.is_file():
                raise JwksUnavailable("it is not a file")
            with self._path.open("rb") as file:
                return _limited(file.read(MOST_BYTES + 1))
        except OSError as error:
            raise JwksUnavailable(error.strerror or str(error)) from error


class HttpEndpoint:
    """A JWKS of a web server. The environment's proxies are not used, as in Kafka."""

    def __init__(self, url: str, context: ssl.SSLContext | None, timeout_s: float = FETCH_S):
        self.url = url
        self._context = context
        self._timeout_s = timeout_s

    def fetch(self) -> bytes:
        """Return the body of the response. A redirect to another host or port is refused, because
        that host would then choose the keys. Raises JwksUnavailable."""
        deadline = monotonic() + self._timeout_s
        url = self.url
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                status, location, body = self._get(urlsplit(url), deadline)
                if status == 200:
                    return _limited(body)
                if status not in _REDIRECTS or not location:
                    raise JwksUnavailable(f"the endpoint responded with status {status}")
                url = urljoin(url, location)
                if _origin(urlsplit(url)) != _origin(urlsplit(self.url)):
                    raise JwksUnavailable(f"the endpoint redirects to another host: {url[:200]!r}")
        except (OSError, HTTPException, ValueError) as error:
            if monotonic() >= deadline:
                raise JwksUnavailable(f"no whole response within {self._timeout_s:g} s") from error
            raise JwksUnavailable(f"{type(error).__name__}: {error}") from error
        raise JwksUnavailable(f"the endpoint redirects more than {_MOST_REDIRECTS} times")

    def _get(self, parts: SplitResult, deadline: float) -> tuple[int, str | None, bytes]:
        """Return status, Location and body of a response. The body is at most one byte longer than
        `MOST_BYTES`."""
        _, host, port = _origin(parts)
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connecting = socket.create_connection((host, port), _left(deadline))
        if self._context is None:
            connection = HTTPConnection(host, port)
        else:
            connection = HTTPSConnection(host, port, context=self._context)
        with connecting as plain:
            connected = plain
            if self._context is not None:
                # The handshake is separate, so that the deadline ends it, too.
                connected = self._context.wrap_socket(
                    plain, server_hostname=host, do_handshake_on_connect=False
                )
            with connected, _ended_at(deadline, connected):
                if isinstance(connected, ssl.SSLSocket):
                    connected.do_handshake()
                connection.sock = connected
                headers = {"Accept": "application/json", "Connection": "close"}
                connection.request("GET", path, headers=headers)
                response = connection.getresponse()
                with response:
                    body = response.read(MOST_BYTES + 1)
                    # A body that the deadline has cut off looks like a short one.
                    _left(deadline)
                    return response.status, response.getheader("Location"), body


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


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port. Raises JwksUnavailable for another URL than http or https."""
    if parts.scheme not in _PORTS or not parts.hostname:
        raise JwksUnavailable(f"the endpoint redirects to a URL of scheme {parts.scheme[:20]!r}")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def _limited(body: bytes) -> bytes:
    if len(body) > MOST_BYTES:
        raise JwksUnavailable(f"the JWKS has more than {MOST_BYTES} bytes")
    return body


def _path(url: str, parts: SplitResult) -> Path:
    """Return the path of a `file:` URL. Raises OAuthSettingsError."""
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise OAuthSettingsError(
            JWKS_URL, f"{JWKS_URL}={url}: write the whole path, as in file:///etc/jwks"
        )
    return Path(path)
