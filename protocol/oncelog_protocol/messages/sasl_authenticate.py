"""SaslAuthenticate (key 36, versions 0 to 2): carries a token of the SASL mechanism (KIP-152).

* v1: lifetime of the session (KIP-368)
* v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.types import bytestring, int16, int64, string


@api_message(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateRequest:
    """A token of the client. The mechanism defines its form."""

    auth_bytes: bytes = bytestring(secret=True)


@api_message(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateResponse:
    """The broker's token, or an error. `session_lifetime_ms` is the time until the client must
    authenticate again; 0 means never."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    auth_bytes: bytes = bytestring(secret=True)
    session_lifetime_ms: int = int64(since=1)
