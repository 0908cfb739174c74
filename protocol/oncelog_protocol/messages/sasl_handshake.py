"""SaslHandshake (key 17, versions 0 to 1): chooses the SASL mechanism of a connection (KIP-43).

* v0: the tokens that follow are frames without a header
* v1: the tokens that follow are SaslAuthenticate requests (KIP-152)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.types import array, int16, string


@api_message(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeRequest:
    """The mechanism that the client has chosen."""

    mechanism: str = string()


@api_message(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeResponse:
    """The outcome, and the mechanisms of this listener."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
