"""Reads the issuer's keys from the URL in `sasl.oauthbearer.jwks.endpoint.url`."""

from __future__ import annotations

import ssl
from pathlib import Path
from time import monotonic
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from oncelog_protocol.security.hosts import is_loopback
from oncelog_protocol.tls.http_exchange import (
    FAILURES,
    MOST_BYTES,
    PORTS,
    HttpRequest,
    exchange,
)
from oncelog_server.security.sasl.oauth_settings import JWKS_URL, OAuthSettingsError

FETCH_S: Final = 10.0
_MOST_REDIRECTS: Final = 3
_HEADERS: Final = {"Accept": "application/json"}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class JwksUnavailable(Exception):
    """The keys could not be fetched. The message has the reason."""


class JwksEndpoint(Protocol):
    url: str

    def fetch(self) -> bytes:
        """Return the JWKS. Blocks for at most about `FETCH_S`, so call it in a thread. Raises
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
        # The URL is logged, so it must have no password.
        raise OAuthSettingsError(JWKS_URL, f"{JWKS_URL} must not contain a user name or a password")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise OAuthSettingsError(
            JWKS_URL, f"{JWKS_URL}={url!r}: percent-encode the characters of the URL"
        )
    if parts.scheme == "file":
        return FileEndpoint(url, _path(url, parts))
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
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
                request = HttpRequest("GET", urlsplit(url), _HEADERS)
                response = exchange(request, self._context, deadline)
                if response.status == 200:
                    return _limited(response.body)
                if response.status not in _REDIRECTS or not response.location:
                    raise JwksUnavailable(f"the endpoint responded with status {response.status}")
                url = urljoin(url, response.location)
                if _origin(urlsplit(url)) != _origin(urlsplit(self.url)):
                    raise JwksUnavailable(f"the endpoint redirects to another host: {url[:200]!r}")
        except FAILURES as error:
            if monotonic() >= deadline:
                raise JwksUnavailable(f"no whole response within {self._timeout_s:g} s") from error
            raise JwksUnavailable(f"{type(error).__name__}: {error}") from error
        raise JwksUnavailable(f"the endpoint redirects more than {_MOST_REDIRECTS} times")


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port. Raises JwksUnavailable for another URL than http or https."""
    if parts.scheme not in PORTS or not parts.hostname:
        raise JwksUnavailable(f"the endpoint redirects to a URL of scheme {parts.scheme[:20]!r}")
    return parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme]


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
