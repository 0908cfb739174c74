"""The client's side of SASL: the requests that authenticate a connection, and the interface of the
mechanisms.

The same code authenticates connections of clients, and connections between brokers. The code only
makes requests and checks responses. Source: KIP-43, KIP-152 and Kafka's SaslClientAuthenticator.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog_protocol.security.mechanisms import SaslMechanism

# Before version 1 of SaslHandshake, the frames of tokens have no header (Kafka 0.10 and 0.11).
_LEAST_HANDSHAKE_VERSION: Final = 1
# The first version of SaslAuthenticate with the lifetime of the session (KIP-368).
_LIFETIME_VERSION: Final = 1

SaslRequest = SaslHandshakeRequest | SaslAuthenticateRequest
SaslResponse = SaslHandshakeResponse | SaslAuthenticateResponse


class SaslClientError(Exception):
    """The exchange cannot continue: the broker's token is wrong, or the credentials cannot be sent.
    The message holds no secret."""


def sendable(field: str, text: str) -> bytes:
    """Return a user name or a password in UTF-8. Raises SaslClientError, which names the field and
    not the text, for NUL and for surrogates."""
    if "\0" in text:
        raise SaslClientError(f"the {field} contains a NUL character")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SaslClientError(f"the {field} contains a surrogate, so it is no Unicode") from None


class AuthenticationFailed(Exception):
    """The connection is not authenticated. A retry with the same credentials does not help."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class SaslClient(Protocol):
    """The client's side of a mechanism, for a single exchange of tokens."""

    mechanism: SaslMechanism

    @property
    def is_complete(self) -> bool:
        """Return True if the mechanism needs no further token of the broker. The client is
        authenticated when, in addition, the broker has accepted its last token."""
        ...

    def first(self) -> bytes:
        """Return the first token. Raises SaslClientError for credentials that cannot be sent."""
        ...

    def next(self, challenge: bytes) -> bytes | None:
        """Return the token that follows the broker's token, None if there is no further token.
        Raises SaslClientError if the broker's token is wrong."""
        ...


def authenticate(
    client: SaslClient, handshake_version: int, authenticate_version: int
) -> Generator[SaslRequest, SaslResponse, int]:
    """Return the lifetime of the session (ms, 0 for no limit). The generator yields requests, to be
    sent in the given versions, and gets the response of each.

    Raises AuthenticationFailed with the code and the message of the broker. The code is 58 if the
    broker's token is wrong, and 35 for a broker before Kafka 1.0.
    """
    if handshake_version < _LEAST_HANDSHAKE_VERSION or authenticate_version < 0:
        raise AuthenticationFailed(
            ErrorCode.UNSUPPORTED_VERSION,
            "the broker has no SaslAuthenticate request, so it is older than Kafka 1.0",
        )
    _check_handshake(client.mechanism, (yield SaslHandshakeRequest(mechanism=client.mechanism)))
    lifetime_ms = 0
    try:
        token: bytes | None = client.first()
        while token is not None:
            response = yield SaslAuthenticateRequest(auth_bytes=token)
            assert isinstance(response, SaslAuthenticateResponse)
            _check_authenticate(response)
            lifetime_ms = response.session_lifetime_ms
            token = None if client.is_complete else client.next(response.auth_bytes)
    except SaslClientError as failure:
        raise AuthenticationFailed(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"SASL {client.mechanism}: {failure}"
        ) from None
    if not client.is_complete:
        raise AuthenticationFailed(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"SASL {client.mechanism}: the broker ended the exchange before its last token",
        )
    return lifetime_ms if authenticate_version >= _LIFETIME_VERSION else 0


def _check_handshake(mechanism: SaslMechanism, response: SaslResponse) -> None:
    """Raise AuthenticationFailed if the broker refuses the mechanism."""
    assert isinstance(response, SaslHandshakeResponse)
    code = response.error_code
    if code == ErrorCode.NONE:
        return
    offered = ", ".join(response.mechanisms) or "none"
    messages = {
        ErrorCode.UNSUPPORTED_SASL_MECHANISM: (
            f"the listener does not have SASL mechanism {mechanism}; its mechanisms: {offered}"
        ),
        ErrorCode.ILLEGAL_SASL_STATE: (
            f"the listener expects no SaslHandshake now (mechanism {mechanism}); check "
            "security.protocol"
        ),
    }
    known = _error_code(code)
    raise AuthenticationFailed(
        known, messages.get(known, f"SaslHandshake with mechanism {mechanism} failed: error {code}")
    )


def _check_authenticate(response: SaslAuthenticateResponse) -> None:
    """Raise AuthenticationFailed if the broker refuses the token."""
    if response.error_code != ErrorCode.NONE:
        raise AuthenticationFailed(
            _error_code(response.error_code),
            response.error_message or f"SaslAuthenticate failed: error {response.error_code}",
        )


def _error_code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
