"""The requests that authenticate a connection, with scripted responses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_protocol.security.sasl_client import (
    AuthenticationFailed,
    SaslClient,
    SaslClientError,
    SaslRequest,
    SaslResponse,
    authenticate,
)
from oncelog_protocol.security.scram_client import ScramClient
from oncelog_protocol.security.scram_credential import ScramMechanism

ACCEPTED = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])


def token(content: bytes = b"", lifetime_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=content, session_lifetime_ms=lifetime_ms
    )


def refused(code: int, message: str | None) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")


def plain() -> PlainClient:
    return PlainClient("alice", Secret("S3cret"))


def scram() -> ScramClient:
    return ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", Secret("S3cret"), "nonce")


def exchange(
    client: SaslClient, *responses: SaslResponse, versions: tuple[int, int] = (1, 2)
) -> tuple[list[SaslRequest], int]:
    """Return the requests and the lifetime. All responses must be used."""
    requests: list[SaslRequest] = []
    steps = authenticate(client, *versions)
    requests.append(next(steps))
    left = list(responses)
    while True:
        try:
            requests.append(steps.send(left.pop(0)))
        except StopIteration as end:
            assert not left
            return requests, end.value


def test_plain_is_a_handshake_and_a_token() -> None:
    requests, lifetime_ms = exchange(plain(), ACCEPTED, token(lifetime_ms=5_000))

    assert requests == [
        SaslHandshakeRequest(mechanism="PLAIN"),
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0S3cret"),
    ]
    assert lifetime_ms == 5_000


def test_the_response_in_version_0_has_no_lifetime() -> None:
    assert exchange(plain(), ACCEPTED, token(), versions=(1, 0))[1] == 0


@pytest.mark.parametrize("versions", [(0, 0), (1, -1), (-1, -1)])
def test_a_broker_without_sasl_authenticate_gets_no_token(versions: tuple[int, int]) -> None:
    with pytest.raises(AuthenticationFailed, match=r"older than Kafka 1\.0") as failed:
        next(authenticate(plain(), *versions))
    assert failed.value.code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("code", "mechanisms", "message"),
    [
        (33, ["SCRAM-SHA-512"], "does not have SASL mechanism PLAIN; its mechanisms: SCRAM-SHA-5"),
        (33, [], "its mechanisms: none"),
        (34, [], "expects no SaslHandshake now"),
        (-1, [], "SaslHandshake with mechanism PLAIN failed: error -1"),
        (9_999, [], "error 9999"),
    ],
)
def test_a_refused_handshake_ends_before_the_password(
    code: int, mechanisms: list[str], message: str
) -> None:
    steps = authenticate(plain(), 1, 2)
    next(steps)

    with pytest.raises(AuthenticationFailed, match=message) as failed:
        steps.send(SaslHandshakeResponse(error_code=code, mechanisms=mechanisms))
    assert failed.value.code == (code if code < 9_999 else -1)


@pytest.mark.parametrize("client", [plain, scram])
@pytest.mark.parametrize(
    ("code", "sent", "message"),
    [
        (58, "Authentication failed: Invalid username or password", "Invalid username"),
        (34, "Unexpected request", "Unexpected request"),
        (58, None, "SaslAuthenticate failed: error 58"),
    ],
)
def test_a_refused_token_has_the_brokers_code_and_message(
    client: Callable[[], SaslClient], code: int, sent: str | None, message: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=message) as failed:
        exchange(client(), ACCEPTED, refused(code, sent))
    assert failed.value.code == code


@pytest.mark.parametrize("challenge", [b"", b"r=nonce2,s=YWJj,i=1", b"v=YWJj"])
def test_a_broker_that_does_not_prove_itself_is_refused(challenge: bytes) -> None:
    """A broker that accepts every client need not know the password."""
    with pytest.raises(AuthenticationFailed, match=r"^SASL SCRAM-SHA-256: ") as failed:
        exchange(scram(), ACCEPTED, token(challenge))
    assert failed.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "S3cret" not in str(failed.value)


def test_credentials_that_cannot_be_sent_are_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="the password contains a NUL"):
        exchange(PlainClient("alice", Secret("a\0b")), ACCEPTED)


class Impatient:
    """A mechanism without a further token, which is not complete."""

    mechanism = SaslMechanism.OAUTHBEARER
    is_complete = False

    def first(self) -> bytes:
        return b"token"

    def next(self, challenge: bytes) -> bytes | None:
        return None


def test_an_exchange_that_is_not_complete_is_no_authentication() -> None:
    with pytest.raises(AuthenticationFailed, match="before its last token"):
        exchange(Impatient(), ACCEPTED, token())


class Reporting(Impatient):
    """As OAUTHBEARER: the client responds to the broker's error with a last token, and then gets
    the broker's error code."""

    def next(self, challenge: bytes) -> bytes | None:
        return b"\x01"


def test_a_last_token_after_an_error_is_sent() -> None:
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        exchange(Reporting(), ACCEPTED, token(b'{"status":"x"}'), refused(58, "invalid_token"))


@pytest.mark.parametrize(("name", "password"), [("", "x"), ("alice", "")])
def test_plain_sends_no_empty_name_or_password(name: str, password: str) -> None:
    with pytest.raises(SaslClientError, match="must not be empty"):
        PlainClient(name, Secret(password)).first()


def test_plain_has_one_token() -> None:
    client = plain()
    assert not client.is_complete
    client.first()

    assert client.is_complete
    with pytest.raises(SaslClientError, match="after the last token"):
        client.next(b"")
