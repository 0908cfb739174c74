"""The request of a token with client credentials (RFC 6749, section 4.4), and its response, as
Kafka's ClientCredentialsJwtRetriever sends and reads them (KIP-768)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from oncelog_protocol.secret import Secret

from .oauth_token import AccessToken, OAuthTokenError, access_token

# Characters that `application/x-www-form-urlencoded` leaves as they are.
_PLAIN: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*_"
)  # fmt: skip
_SUCCESS: Final = frozenset({200, 201})
# With these statuses the same request would fail again, as in Kafka's HttpJwtRetriever.
_FINAL: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)
_MOST_SHOWN: Final = 500
_MS: Final = 1000


class ClientCredentials(NamedTuple):
    """Kafka's settings `sasl.oauthbearer.client.credentials.*`, `sasl.oauthbearer.scope` and
    `sasl.oauthbearer.header.urlencode`."""

    client_id: str
    client_secret: Secret
    scope: str | None = None
    header_urlencode: bool = False


def request_headers(credentials: ClientCredentials) -> dict[str, str]:
    """Return the headers of the request. They contain the client's secret."""
    name, secret = credentials.client_id.strip(), credentials.client_secret.reveal().strip()
    if credentials.header_urlencode:
        name, secret = form_encoded(name), form_encoded(secret)
    return {
        "Accept": "application/json",
        "Authorization": f"Basic {b64encode(f'{name}:{secret}'.encode()).decode()}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def request_body(credentials: ClientCredentials) -> bytes:
    """Return the form of the request."""
    scope = (credentials.scope or "").strip()
    body = "grant_type=client_credentials"
    return (f"{body}&scope={form_encoded(scope)}" if scope else body).encode()


def read_response(status: int, body: bytes, now_ms: int) -> AccessToken:
    """Return the token in a response that arrived at `now_ms` (ms since the epoch). A JWT contains
    its times. Any other token expires after `expires_in`. Raises OAuthTokenError."""
    value = _json(body)
    if status not in _SUCCESS:
        raise OAuthTokenError(
            f"the token endpoint responded with status {status}{_reason(value)}",
            is_retriable=status not in _FINAL,
        )
    for name in ("access_token", "id_token"):
        text = value.get(name)
        if isinstance(text, str) and text.strip():
            token = access_token(text)
            if token.expires_ms is None:
                token = token._replace(expires_ms=_expiry_ms(value.get("expires_in"), now_ms))
            return token
    # The text of the response is not shown, because it may contain a token.
    raise OAuthTokenError("the response of the token endpoint has no `access_token`")


def form_encoded(text: str) -> str:
    """Return a text as a form encodes it: a blank is `+`, other characters are `%XX`."""
    return "".join(
        chr(byte) if byte in _PLAIN else "+" if byte == 0x20 else f"%{byte:02X}"
        for byte in text.encode()
    )


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except (RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _reason(value: Mapping[str, Any]) -> str:
    """Return the error of RFC 6749, section 5.2, or of Okta. Neither contains a secret."""
    for code, description in (("error", "error_description"), ("errorCode", "errorSummary")):
        if isinstance(value.get(code), str):
            parts = (value[code], value.get(description))
            return f": {' - '.join(str(part) for part in parts if part)}"[:_MOST_SHOWN]
    return ""


def _expiry_ms(expires_in: object, now_ms: int) -> int | None:
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return None
    return now_ms + int(expires_in * _MS) if 0 <= expires_in < 2**32 else None
