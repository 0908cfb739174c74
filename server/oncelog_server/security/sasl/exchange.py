"""The interface of the broker's side of every SASL mechanism: one exchange for each authentication
of a connection."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from oncelog_server.deferred import Deferred
from oncelog_server.security.resources import Principal


class Challenge(msgspec.Struct, frozen=True):
    """The broker's token. The client must respond to it with a further token. If `refusal` is not
    empty, the client is refused for this reason, whatever its response is."""

    token: bytes
    refusal: str = ""


class Authenticated(msgspec.Struct, frozen=True):
    """The end of a successful exchange. `token` is the broker's last token, which may be empty.
    `expires_ms` is the time (ms since the epoch) at which the credential itself expires, None if it
    does not."""

    token: bytes
    principal: Principal
    expires_ms: int | None = None


# Characters of a name that a message or a reason shows. A client may send any number of them.
SHOWN: Final = 100


class AuthenticationRefused(Exception):
    """The client is not authenticated. The message goes to the client, so it holds no secret, and
    does not show whether the user exists. `reason` is for the log of the broker."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class SaslExchange(Protocol):
    """One exchange of tokens. It is not used any more after Authenticated or an error."""

    def evaluate(
        self, token: bytes
    ) -> Challenge | Authenticated | Deferred[Challenge | Authenticated]:
        """Judge a token of the client. Raises AuthenticationRefused; a Deferred is abandoned with
        it."""
        ...
