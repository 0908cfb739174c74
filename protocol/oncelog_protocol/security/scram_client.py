"""The client's side of SCRAM (RFC 5802), as Kafka's ScramSaslClient: the password is never sent,
and the broker must prove that it knows the password's keys."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.sasl_client import (
    SaslClient,
    SaslClientError,
    SaslResponse,
    sendable,
)
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_protocol.security.scram_messages import (
    GS2_HEADER,
    InvalidScramMessage,
    ServerFirst,
    auth_message,
    client_final_unproven,
    client_first_bare,
    client_proof,
    parse_server_final,
    parse_server_first,
    proven,
    signature_of,
)

# Kafka's brokers have at most 16,384 iterations, other brokers may have more. A million takes 2 s,
# so a broker cannot keep a client busy for longer.
_MOST_CLIENT_ITERATIONS: Final = 1_000_000


@lru_cache(maxsize=64)
def _salted(mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Return SaltedPassword. The results are cached: a process opens many connections with few
    passwords, and each computation takes 8 ms. Any thread may call this."""
    return salted_password(mechanism, password.reveal(), salt, iterations)


class ScramClient:
    """The exchange of a name and a password. `nonce` is random text (`random_text`)."""

    __slots__ = (
        "_bare",
        "_complete",
        "_extensions",
        "_nonce",
        "_password",
        "_scram",
        "_server_signature",
        "_username",
        "mechanism",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: Secret,
        nonce: str,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self.mechanism = mechanism.sasl
        self._scram = mechanism
        self._username = username
        self._password = password
        self._nonce = nonce
        self._extensions = extensions or {}
        self._bare = b""
        self._server_signature: bytes | None = None
        self._complete = False

    @property
    def is_complete(self) -> bool:
        return self._complete

    def first(self) -> bytes:
        """Return the client's first message. Raises SaslClientError for an empty name, and for
        text that the messages cannot hold."""
        username = sendable("user name", self._username)
        sendable("password", self._password.reveal())
        if not username:
            raise SaslClientError("the user name must not be empty")
        self._bare = client_first_bare(username, self._nonce, self._extensions)
        return GS2_HEADER.encode() + self._bare

    def next(self, challenge: bytes) -> bytes | None:
        """Return the client's final message, then None. Raises SaslClientError for a nonce that
        does not continue the client's, for iterations out of range, and for a wrong signature."""
        if self._complete:
            raise SaslClientError("a token of the broker after the last token")
        try:
            if self._server_signature is None:
                return self._final(challenge)
            self._verify(challenge, self._server_signature)
        except InvalidScramMessage as failure:
            raise SaslClientError(str(failure)) from None
        self._complete = True
        return None

    def preparation(self, challenge: bytes) -> Callable[[], object] | None:
        """Return the slow part of `next(challenge)`, None if there is none. After the caller has
        run that part, on any thread, `next` takes no time. An invalid challenge has no slow
        part."""
        if self._complete or self._server_signature is not None:
            return None
        try:
            server = self._server_first(challenge)
        except (InvalidScramMessage, SaslClientError):
            return None
        return partial(_salted, self._scram, self._password, server.salt, server.iterations)

    def _server_first(self, challenge: bytes) -> ServerFirst:
        server = parse_server_first(challenge)
        if not server.nonce.startswith(self._nonce) or len(server.nonce) == len(self._nonce):
            raise SaslClientError("the broker's nonce does not continue the client's nonce")
        if not LEAST_ITERATIONS <= server.iterations <= _MOST_CLIENT_ITERATIONS:
            raise SaslClientError(
                f"the broker asks for {server.iterations} iterations, not "
                f"{LEAST_ITERATIONS} to {_MOST_CLIENT_ITERATIONS}"
            )
        return server

    def _final(self, challenge: bytes) -> bytes:
        server = self._server_first(challenge)
        salted = _salted(self._scram, self._password, server.salt, server.iterations)
        unproven = client_final_unproven(GS2_HEADER, server.nonce)
        message = auth_message(self._bare, challenge, unproven)
        server_key = credential_of(self._scram, server.salt, salted, server.iterations).server_key
        self._server_signature = signature_of(self._scram, server_key, message)
        return proven(unproven, client_proof(self._scram, salted, message))

    def _verify(self, challenge: bytes, expected: bytes) -> None:
        server = parse_server_final(challenge)
        if server.error is not None:
            raise SaslClientError(f"the broker reports {server.error!r}")
        if not hmac.compare_digest(server.signature, expected):
            raise SaslClientError("the broker does not know the password: its signature is wrong")


def preparation(client: SaslClient, response: SaslResponse) -> Callable[[], object] | None:
    """Return work that an event loop must run on a thread before it passes `response` on to
    `authenticate`: PBKDF2, which takes 8 ms for 4,096 iterations. None if there is none."""
    if (
        not isinstance(client, ScramClient)
        or not isinstance(response, SaslAuthenticateResponse)
        or response.error_code
    ):
        return None
    return client.preparation(response.auth_bytes)
