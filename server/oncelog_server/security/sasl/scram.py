"""The broker's side of SCRAM (RFC 5802), with the messages of Kafka's ScramSaslServer.

An exchange does not show whether the user exists. For an unknown user it has the messages and the
work of a wrong password, with a credential that is derived from the name. Kafka refuses an unknown
user at the first message.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from typing import NamedTuple

from oncelog_protocol.security.login import TOKEN_AUTH, RandomBytes
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)
from oncelog_protocol.security.scram_messages import (
    GS2_HEADER,
    RANDOM_BYTES,
    ClientFinal,
    InvalidScramMessage,
    auth_message,
    is_proof,
    parse_client_final,
    parse_client_first,
    random_text,
    server_final,
    server_first,
    signature_of,
)
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import (
    SHOWN,
    Authenticated,
    AuthenticationRefused,
    Challenge,
)

ScramLookup = Callable[[str], ScramCredential | None]
"""Returns the credential of a user, None if there is none for the mechanism."""


def least_iterations() -> Collection[int]:
    """Return the numbers of iterations that count as in use if there is no credential."""
    return (LEAST_ITERATIONS,)


class _Begun(NamedTuple):
    """An exchange after the first message of each side. `refusal` is the reason for the log if the
    exchange fails with every proof, else empty."""

    name: str
    credential: ScramCredential
    header: str
    nonce: str
    bare: bytes
    server_first: bytes
    refusal: str


class ScramExchange:
    """The exchange of two tokens in each direction. `server_secret` is the key of the credentials
    of unknown users. It is the same in all brokers and after a restart: a salt that changes shows
    that the user does not exist. `iterations` returns the numbers of iterations of the mechanism's
    credentials. An unknown user gets one of these, because any other number would show that the
    user does not exist."""

    __slots__ = (
        "_begun",
        "_iterations",
        "_lookup",
        "_mechanism",
        "_message",
        "_random_bytes",
        "_secret",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: ScramLookup,
        random_bytes: RandomBytes,
        server_secret: bytes,
        iterations: Callable[[], Collection[int]] = least_iterations,
        *,
        reauthentication: bool = False,
    ) -> None:
        """`reauthentication` is True if the connection was authenticated before (KIP-368)."""
        self._mechanism = mechanism
        self._lookup = lookup
        self._random_bytes = random_bytes
        self._secret = server_secret
        self._iterations = iterations
        during = "re-authentication" if reauthentication else "authentication"
        self._message = (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
            f"{mechanism.sasl}"
        )
        self._begun: _Begun | None = None

    def evaluate(self, token: bytes) -> Challenge | Authenticated:
        """Judge a token of the client. Raises AuthenticationRefused with Kafka's message."""
        try:
            if self._begun is None:
                self._begun = self._begin(token)
                return Challenge(self._begun.server_first)
            return self._end(self._begun, parse_client_final(token))
        except InvalidScramMessage as failure:
            raise self._refused(str(failure)) from None

    def _begin(self, token: bytes) -> _Begun:
        first = parse_client_first(token)
        # Judged before the user is looked up, because this message differs from the others.
        if first.authorization_id not in ("", first.name):
            raise AuthenticationRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        if first.extensions.get(TOKEN_AUTH, "").lower() == "true":
            raise self._refused("delegation tokens are not supported")
        found = self._lookup(first.name)
        derived = self._derived(first.name)
        credential, refusal = derived, ""
        if found is None:
            refusal = f"unknown user: {first.name[:SHOWN]!r}"
        elif found.iterations < LEAST_ITERATIONS:
            refusal = f"{found.iterations} iterations, of user {first.name[:SHOWN]!r}, are too few"
        else:
            credential = found
        nonce = first.nonce + random_text(self._random_bytes(RANDOM_BYTES))
        message = server_first(nonce, credential.salt, credential.iterations)
        return _Begun(first.name, credential, first.header, nonce, first.bare, message, refusal)

    def _end(self, begun: _Begun, final: ClientFinal) -> Authenticated:
        # With an authorization id, franz-go repeats the header without it, and Kafka compares
        # nothing. Both headers say that there is no channel binding.
        if final.binding not in (begun.header.encode(), GS2_HEADER.encode()):
            raise self._refused("the channel binding is not the header of the first message")
        if not hmac.compare_digest(final.nonce.encode(), begun.nonce.encode()):
            raise self._refused("the nonce is not that of the broker")
        signed = auth_message(begun.bare, begun.server_first, final.unproven)
        credential = begun.credential
        proven = is_proof(self._mechanism, credential.stored_key, signed, final.proof)
        if begun.refusal or not proven:
            raise self._refused(begun.refusal or f"wrong password: {begun.name[:SHOWN]!r}")
        signature = signature_of(self._mechanism, credential.server_key, signed)
        return Authenticated(server_final(signature), Principal("User", begun.name))

    def _derived(self, name: str) -> ScramCredential:
        """Return the credential of an unknown user, the same for a name as long as the credentials
        have the same numbers of iterations. Its salt has the form of Kafka's salts."""
        salt, stored_key, server_key = (
            self._digest(part, name) for part in ("salt", "stored key", "server key")
        )
        # The number with the largest hash is chosen (rendezvous hashing). So a new number of
        # iterations changes only the names that get the new number.
        iterations = max(
            self._iterations(), key=lambda number: self._digest(f"{number} iterations", name)
        )
        return ScramCredential(random_text(salt).encode(), stored_key, server_key, iterations)

    def _digest(self, part: str, name: str) -> bytes:
        message = f"{self._mechanism.sasl} {part} {name}".encode()
        return hmac.digest(self._secret, message, self._mechanism.hash_name)

    def _refused(self, reason: str) -> AuthenticationRefused:
        return AuthenticationRefused(self._message, reason)
