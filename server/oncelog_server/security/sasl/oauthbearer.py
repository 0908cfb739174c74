"""The broker's side of SASL/OAUTHBEARER (RFC 7628), as Kafka's OAuthBearerSaslServer."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.oauthbearer import (
    OAuthBearerError,
    read_initial_response,
    write_failure,
)
from oncelog_server.deferred import Deferred, then
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.claims import Claims, InvalidToken, TokenValidator
from oncelog_server.security.sasl.exchange import (
    SHOWN,
    Authenticated,
    AuthenticationRefused,
    Challenge,
)


class OAuthBearerExchange:
    """The `SaslExchange` of OAUTHBEARER. `now_ms` returns the time in ms since the epoch.

    A refused token gets a challenge with JSON. The client's next message ends the exchange. By the
    RFC it is `%x01`. Kafka accepts a second token there; here it needs a new exchange. SASL
    extensions are checked for their form and have no effect. `again` is True if the connection is
    authenticated already (KIP-368).
    """

    def __init__(
        self, validator: TokenValidator, now_ms: Callable[[], int], *, again: bool = False
    ) -> None:
        self._validator = validator
        self._now_ms = now_ms
        # Kafka's message for a malformed token of the client.
        self._malformed = (
            f"Authentication failed during {'re-' if again else ''}authentication due to invalid "
            f"credentials with SASL mechanism {SaslMechanism.OAUTHBEARER}"
        )
        self._refused: InvalidToken | None = None

    def evaluate(
        self, token: bytes
    ) -> Challenge | Authenticated | Deferred[Challenge | Authenticated]:
        """Judge a token of the client. Raises AuthenticationRefused; a Deferred is abandoned with
        it."""
        if self._refused is not None:
            raise AuthenticationRefused(_failure(self._refused).decode(), self._refused.reason)
        try:
            response = read_initial_response(token)
        except OAuthBearerError as error:
            raise AuthenticationRefused(self._malformed, str(error)) from None
        verdict = self._validator.validate(response.token.reveal(), self._now_ms())
        return then(verdict, lambda known: self._judged(known, response.authorization_id))

    def _judged(
        self, verdict: Claims | InvalidToken, authorization_id: str
    ) -> Challenge | Authenticated:
        if isinstance(verdict, InvalidToken):
            self._refused = verdict
            return Challenge(_failure(verdict), verdict.reason)
        if authorization_id not in ("", verdict.subject):
            raise AuthenticationRefused(
                "Authentication failed: Client requested an authorization id"
                f" ({authorization_id[:SHOWN]}) that is different from the token's principal name"
                f" ({verdict.subject[:SHOWN]})"
            )
        return Authenticated(b"", Principal("User", verdict.subject), verdict.expires_ms)


def _failure(refused: InvalidToken) -> bytes:
    return write_failure(refused.status, refused.scope)
