"""The state machine of SASL on a connection: all sequences of up to six steps, by a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.codecs import decode, encoder
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.headers import read_response_header, write_request_header
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.deferred import Deferred
from oncelog_server.requests.authentication import REAUTHENTICATION_MS, Authentication, SaslRules
from oncelog_server.requests.response import EncodedResponse, Parts, Serve
from oncelog_server.requests.session import Session
from oncelog_server.security.resources import ANONYMOUS, Principal
from oncelog_server.security.sasl.exchange import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
)

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
SESSION = Session(ANONYMOUS, "10.0.0.1", "EXTERNAL", lambda: False)
DELAY_MS = 100
MECHANISM = SaslMechanism.SCRAM_SHA_512


class TwoTokens:
    """A mechanism of two tokens, `one` and `two`; the second may name another principal."""

    expires_ms: int | None = None

    def __init__(self) -> None:
        self._next = b"one"

    def evaluate(self, token: bytes) -> Challenge | Authenticated:
        if token == b"one" and self._next == b"one":
            self._next = b"two"
            return Challenge(b"1")
        if token in (b"two", b"two bob") and self._next == b"two":
            principal = ALICE if token == b"two" else BOB
            return Authenticated(b"2", principal, self.expires_ms)
        raise AuthenticationRefused("Authentication failed", "the token is wrong")


class ManualTimers:
    """Timers that fire when the test says so."""

    def __init__(self) -> None:
        self.delays: list[int] = []
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimers:
        self.delays.append(delay_ms)
        self.due.append(callback)
        return self

    def cancel(self) -> None:
        self.due.clear()

    def fire(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class Client:
    """A connection that authenticates, and its client."""

    def __init__(
        self, max_reauth_ms: int | None = None, exchange: Callable[[], Any] = TwoTokens
    ) -> None:
        self.now_ms = 0
        self.timers = ManualTimers()
        self.principal: Principal | None = None
        self.failures: list[str] = []
        self.is_drained = False
        self.expired = 0
        self.served: list[int] = []
        rules = SaslRules(
            exchanges={MECHANISM: lambda again: exchange()},
            max_reauth_ms={} if max_reauth_ms is None else {MECHANISM: max_reauth_ms},
            failure_delay_ms=DELAY_MS,
            wall_ms=lambda: self.now_ms,
            monotonic_ms=lambda: self.now_ms,
            timers=self.timers,
        )
        self.serve: Serve = Authentication(rules, self, self.dispatch).serve

    def dispatch(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve as a broker that speaks ApiVersions v0 to v4."""
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        self.served.append(key)
        if key != ApiKey.API_VERSIONS:
            return [b"served"]
        code = ErrorCode.NONE if version <= 4 else ErrorCode.UNSUPPORTED_VERSION
        body: list[Any] = [bytes(frame[4:8])]
        encoder(ApiVersionsResponse, 0)(ApiVersionsResponse(error_code=code), body.append)
        whole = b"".join(body)
        return [len(whole).to_bytes(4, "big") + whole]

    def served_by(self, serve: Serve) -> None:
        self.serve = serve

    def authenticated(self, principal: Principal, serve: Serve) -> None:
        self.principal = principal
        self.serve = serve

    def refused(self, reason: str) -> None:
        self.failures.append(reason)

    def drain(self) -> None:
        self.is_drained = True

    def session_expired(self) -> None:
        self.expired += 1

    def answer(self, frame: bytes) -> bytes:
        """Send a frame, and return the whole response."""
        response = self.serve(memoryview(frame), SESSION)
        assert response is not None
        if not isinstance(response, Deferred):
            return _joined(response)
        assert not response.done, "a response would be sent under the old session"
        self.timers.fire()
        return _joined(response.value)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request, and return its response; None if there is none."""
        answer = self.answer(framed(request, version))
        api = api_of(type(request))
        if not answer:
            return None
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        _, position = read_response_header(api.key, version, answer, 4)
        return decode(
            api.response, 0 if api.key == ApiKey.API_VERSIONS else version, answer[position:]
        )

    def authenticate(self, *tokens: bytes) -> SaslAuthenticateResponse:
        """Authenticate by tokens. Return the last response."""
        assert self.ask(SaslHandshakeRequest(MECHANISM), 1).error_code == ErrorCode.NONE
        answers = [self.ask(SaslAuthenticateRequest(token), 1) for token in tokens]
        response = answers[-1]
        assert isinstance(response, SaslAuthenticateResponse)
        return response


def _joined(parts: Parts) -> bytes:
    return b"".join(parts)  # type: ignore[arg-type]  # no file ranges here


def framed(request: Any, version: int) -> bytes:
    parts: list[Any] = [write_request_header(api_of(type(request)).key, version, 7, "test")]
    encoder(type(request), version)(request, parts.append)
    return b"".join(parts)


def handshake(version: int, mechanism: str = MECHANISM) -> bytes:
    return framed(SaslHandshakeRequest(mechanism), version)


def token(text: bytes) -> bytes:
    return framed(SaslAuthenticateRequest(text), 1)


VERSIONS = framed(ApiVersionsRequest(), 0)
STEPS = {
    "versions": VERSIONS,
    "unknown versions": VERSIONS[:2] + b"\0\x63" + VERSIONS[4:],
    "handshake": handshake(1),
    "old handshake": handshake(0),
    "unknown mechanism": handshake(1, "GSSAPI"),
    "one": token(b"one"),
    "two": token(b"two"),
    "empty token": token(b""),
    "huge token": token(bytes(60_000)),
    "bare one": b"one",
    "bare two": b"two",
    "other API": framed(MetadataRequest(topics=[]), 1),
    "no request": b"\x60\x81",
}
# The next state, after the steps that do not end the connection. Every other step does.
GOES_ON = {
    ("start", "versions"): "versions known",
    ("start", "unknown versions"): "start",
    ("start", "handshake"): "first token",
    ("start", "old handshake"): "first bare token",
    ("versions known", "handshake"): "first token",
    ("versions known", "old handshake"): "first bare token",
    ("first token", "one"): "second token",
    ("second token", "two"): "complete",
    ("first bare token", "bare one"): "second bare token",
    ("second bare token", "bare two"): "complete",
}
# The codes of the responses to steps that end the connection. A step without a row here gets no
# response.
CODES = {
    "unknown mechanism": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    **dict.fromkeys(("one", "two", "empty token", "huge token"), ErrorCode.ILLEGAL_SASL_STATE),
}
LENGTH = 6


def test_every_sequence_of_up_to_six_steps_ends_as_the_table_says() -> None:
    sequences = 0

    def explore(path: tuple[str, ...], state: str) -> None:
        nonlocal sequences
        for step in STEPS:
            client = Client()
            for earlier in path:
                client.answer(STEPS[earlier])
            sequences += 1
            following = GOES_ON.get((state, step))
            steps = (*path, step)
            if following is None:
                _expect_the_end(client, state, step, steps)
            else:
                assert client.answer(STEPS[step]), steps
                assert not client.failures, steps
                if following == "complete":
                    assert client.principal == ALICE, steps
                    assert client.serve == client.dispatch, steps
                elif len(steps) < LENGTH:
                    assert client.principal is None, steps
                    explore(steps, following)

    explore((), "start")
    assert sequences > 500


def _expect_the_end(client: Client, state: str, step: str, steps: tuple[str, ...]) -> None:
    served = list(client.served)
    try:
        answer = client.answer(STEPS[step])
    except ProtocolError:  # the connection is closed at once
        answer = b""
    else:
        assert len(client.failures) == 1, steps
        assert client.is_drained, steps
        assert client.timers.delays[-1] == DELAY_MS, steps
    assert client.principal is None, steps
    assert client.served == served, "no request is served before authentication"
    if answer and "bare" not in state:
        code = ErrorCode(int.from_bytes(answer[8:10], "big"))
        is_token = state in ("first token", "second token") and step in CODES
        if step == "unknown mechanism":
            assert code in (CODES[step], ErrorCode.ILLEGAL_SASL_STATE), steps
        elif is_token:
            assert code == ErrorCode.SASL_AUTHENTICATION_FAILED, steps
        else:
            assert code == ErrorCode.ILLEGAL_SASL_STATE, steps


def test_an_unknown_mechanism_gets_the_mechanisms_of_the_listener() -> None:
    client = Client()

    response = client.ask(SaslHandshakeRequest("GSSAPI"), 1)

    assert response == SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, [MECHANISM])
    assert client.failures == ["the SASL mechanism 'GSSAPI' is not enabled"]


def test_a_refused_client_gets_the_message_and_the_log_the_reason() -> None:
    client = Client()

    response = client.authenticate(b"wrong")

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed"
    assert client.failures == ["the token is wrong"]


def test_a_failure_is_logged_even_if_the_client_closes_before_the_delay_is_over() -> None:
    """A client that closes after 50 ms without a response knows that its password is wrong."""
    client = Client()
    client.answer(handshake(1))

    response = client.serve(memoryview(token(b"wrong")), SESSION)

    assert isinstance(response, Deferred)
    assert client.failures == ["the token is wrong"]
    assert not client.is_drained
    response.cancel()
    client.timers.fire()
    assert not client.is_drained
    assert not response.done


def test_a_deferred_evaluation_parks_the_connection() -> None:
    pending: Deferred[Challenge | Authenticated] = Deferred()

    class Waiting:
        def evaluate(self, token: bytes) -> Deferred[Challenge | Authenticated]:
            return pending

    for outcome, principal in ((Authenticated(b"", ALICE), ALICE), (None, None)):
        pending = Deferred()
        client = Client(exchange=Waiting)
        client.answer(handshake(1))
        response = client.serve(memoryview(token(b"one")), SESSION)
        assert isinstance(response, Deferred)
        if outcome is None:
            pending.abandon(AuthenticationRefused("no"))
        else:
            pending.complete(outcome)
        client.timers.fire()
        assert response.done
        assert client.principal == principal
        assert client.failures == ([] if outcome else ["no"])


def test_a_client_that_has_gone_is_not_authenticated() -> None:
    client = Client()
    client.answer(handshake(1))
    client.answer(token(b"one"))
    response = client.serve(memoryview(token(b"two")), SESSION)
    assert isinstance(response, Deferred)

    response.cancel()
    client.timers.fire()

    assert client.principal is None


def test_a_client_that_has_gone_before_its_verdict_is_not_authenticated() -> None:
    """The verdict of a token arrives in the turn in which the connection ends."""
    pending: Deferred[Challenge | Authenticated] = Deferred()

    class Waiting:
        def evaluate(self, token: bytes) -> Deferred[Challenge | Authenticated]:
            return pending

    client = Client(exchange=Waiting)
    client.answer(handshake(1))
    response = client.serve(memoryview(token(b"one")), SESSION)
    assert isinstance(response, Deferred)
    pending.complete(Authenticated(b"", ALICE))
    response.cancel()
    client.timers.fire()
    assert client.principal is None


def test_a_client_that_closes_after_a_challenge_that_refuses_it_is_logged_once() -> None:
    """A refused bearer token gets a challenge. The client's response to the challenge has no
    meaning."""

    class Refusing:
        def __init__(self) -> None:
            self._challenged = False

        def evaluate(self, token: bytes) -> Challenge | Authenticated:
            if self._challenged:
                raise AuthenticationRefused("no", "the token has expired")
            self._challenged = True
            return Challenge(b"{}", "the token has expired")

    client = Client(exchange=Refusing)
    client.authenticate(b"token")
    assert client.failures == ["the token has expired"]

    waiting = Client(exchange=Refusing)
    waiting.authenticate(b"token", b"\x01")
    assert waiting.failures == ["the token has expired"]


# --- re-authentication (KIP-368)


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_ms", "lifetime_ms"),
    [
        (None, None, 0),
        (5_000, None, 5_000),
        (None, 3_000, 3_000),
        (5_000, 9_000, 5_000),
        (5_000, 1_000, 1_000),
    ],
)
def test_the_lifetime_of_a_session_is_the_shorter_limit(
    max_reauth_ms: int | None, expires_ms: int | None, lifetime_ms: int
) -> None:
    class Expiring(TwoTokens):
        pass

    Expiring.expires_ms = expires_ms
    client = Client(max_reauth_ms, Expiring)

    assert client.authenticate(b"one", b"two").session_lifetime_ms == lifetime_ms


def test_an_expired_session_serves_nothing_but_a_new_authentication() -> None:
    client = Client(max_reauth_ms=5_000)
    client.authenticate(b"one", b"two")
    request = framed(MetadataRequest(topics=[]), 1)
    client.now_ms = 4_999
    assert client.answer(request) == b"served"

    client.now_ms = 5_000
    assert client.expired == 0
    with pytest.raises(ProtocolError, match="expired"):
        client.answer(request)
    assert client.expired == 1
    assert client.authenticate(b"one", b"two").session_lifetime_ms == 5_000
    assert client.answer(request) == b"served"


def test_during_a_new_authentication_no_other_request_is_served() -> None:
    client = Client(max_reauth_ms=5_000)
    client.authenticate(b"one", b"two")
    client.answer(handshake(1))

    assert client.answer(framed(MetadataRequest(topics=[]), 1)) == b""
    assert len(client.failures) == 1


def test_a_new_authentication_must_keep_the_principal_and_the_mechanism() -> None:
    client = Client(max_reauth_ms=5_000)
    client.authenticate(b"one", b"two")

    response = client.authenticate(b"one", b"two bob")

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert client.principal == ALICE


def test_a_message_shows_the_beginning_of_a_long_name() -> None:
    names = iter(["alice", "b" * 10_000])

    class Naming:
        def evaluate(self, token: bytes) -> Authenticated:
            return Authenticated(b"", Principal("User", next(names)))

    client = Client(exchange=Naming, max_reauth_ms=5_000)
    client.authenticate(b"one")
    response = client.authenticate(b"one")
    assert response.error_message is not None
    assert response.error_message.endswith(f": User.{'b' * 100}")


def test_a_client_may_authenticate_again_once_in_a_second() -> None:
    client = Client(max_reauth_ms=5_000)
    client.authenticate(b"one", b"two")
    client.authenticate(b"one", b"two")
    client.now_ms = REAUTHENTICATION_MS - 1
    assert client.answer(handshake(1)) == b"served"  # the handler responds ILLEGAL_SASL_STATE
    client.now_ms = REAUTHENTICATION_MS
    client.authenticate(b"one", b"two")


def test_a_session_that_does_not_expire_cannot_be_renewed() -> None:
    client = Client()
    client.authenticate(b"one", b"two")

    assert client.answer(handshake(1)) == b"served"  # the handler responds ILLEGAL_SASL_STATE
