"""The token endpoint of an issuer: one POST in a thread, with limits of time and size.

The import takes 20 ms, so only a client with `sasl.oauthbearer.token.endpoint.url` imports this
module.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from oncelog_client.core.oauth_token import OAuthTokenError
from oncelog_client.errors import ConfigError
from oncelog_protocol.security.hosts import is_loopback
from oncelog_protocol.tls.http_exchange import (
    FAILURES,
    MOST_BYTES,
    PORTS,
    HttpRequest,
    HttpResponse,
    exchange,
)

URL: Final = "sasl.oauthbearer.token.endpoint.url"
POST_S: Final = 10.0


class TokenEndpoint:
    """An https URL, or an http URL of this computer. `context` has the certificates that https
    trusts, by default those of the system. Redirects are not followed, because the request has a
    secret. Raises ConfigError for other URLs."""

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
        if parts.scheme not in PORTS or not host or port == 0:
            raise ConfigError(f"{URL}={url!r}: must be an https: URL")
        if not (url.isascii() and url.isprintable()) or " " in url:
            raise ConfigError(f"{URL}={url!r}: percent-encode the characters of the URL")
        if parts.scheme == "http" and not is_loopback(host):
            raise ConfigError(
                f"{URL}={url!r}: http is allowed only for this computer, because it shows the"
                " client's secret to the network. Use https"
            )
        self.url = url
        self._parts = parts
        self._timeout_s = timeout_s
        self._context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._context = context or ssl.create_default_context()

    def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a form and return the response. Blocks for at most about `timeout_s`. Raises
        OAuthTokenError, which is retriable, if there is no whole response."""
        deadline = monotonic() + self._timeout_s
        try:
            response = exchange(
                HttpRequest("POST", self._parts, headers, body), self._context, deadline
            )
        except FAILURES as error:
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
