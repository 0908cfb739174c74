"""The broker's exchange of OAUTHBEARER: a refused token never authenticates, whatever follows."""

from __future__ import annotations

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.oauthbearer import write_initial_response
from oncelog_server.deferred import Deferred
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.exchange import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
    SaslExchange,
)
from oncelog_server.security.sasl.oauthbearer import OAuthBearerExchange

GOOD = write_initial_response(Secret("good"), {"any": "extension"})
BAD = write_initial_response(Secret("bad"), {})
NOW_MS = 1_000
ALICE = Authenticated(b"", Principal("User", "alice"), 5_000)
REFUSAL = InvalidToken("the token has expired")


class Known:
    """Accepts the token `good` at `NOW_MS`."""

    def validate(self, token: str, now_ms: int) -> Claims | InvalidToken:
        return Claims("alice", 5_000) if (token, now_ms) == ("good", NOW_MS) else REFUSAL


class Later:
    """Gives its verdicts when the test completes them."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Claims | InvalidToken]] = []

    def validate(self, token: str, now_ms: int) -> Deferred[Claims | InvalidToken]:
        self.asked.append(Deferred())
        return self.asked[-1]


def exchange(*, again: bool = False) -> SaslExchange:
    return OAuthBearerExchange(Known(), lambda: NOW_MS, again=again)


def test_a_good_token_authenticates_its_subject_until_it_expires() -> None:
    assert exchange().evaluate(GOOD) == ALICE


@pytest.mark.parametrize("response", [b"\x01", b"", b"anything", GOOD])
def test_a_refused_token_gets_json_and_then_an_error(response: bytes) -> None:
    """Even a good token in the second message is refused. Kafka would accept it."""
    begun = exchange()
    assert begun.evaluate(BAD) == Challenge(b'{"status":"invalid_token"}', REFUSAL.reason)
    with pytest.raises(AuthenticationRefused) as caught:
        begun.evaluate(response)
    assert str(caught.value) == '{"status":"invalid_token"}'
    assert caught.value.reason == REFUSAL.reason


@pytest.mark.parametrize(
    ("again", "when"), [(False, "authentication"), (True, "re-authentication")]
)
def test_a_malformed_message_is_refused_at_once_with_kafkas_text(again: bool, when: str) -> None:
    with pytest.raises(AuthenticationRefused) as caught:
        exchange(again=again).evaluate(b"n,,\x01auth=Basic S3cret\x01\x01")
    assert str(caught.value) == (
        f"Authentication failed during {when} due to invalid credentials with SASL mechanism"
        " OAUTHBEARER"
    )
    assert "S3cret" not in caught.value.reason


def test_the_authorization_id_must_be_the_subject() -> None:
    assert exchange().evaluate(GOOD.replace(b"n,,", b"n,a=alice,")) == ALICE
    with pytest.raises(AuthenticationRefused, match=r"authorization id \(bob\)"):
        exchange().evaluate(GOOD.replace(b"n,,", b"n,a=bob,"))
    long_id = b"n,a=" + b'\\"' * 30_000 + b","
    with pytest.raises(AuthenticationRefused) as caught:
        exchange().evaluate(GOOD.replace(b"n,,", long_id))
    assert len(caught.value.reason) < 300
    # The token is judged first.
    assert isinstance(exchange().evaluate(BAD.replace(b"n,,", b"n,a=bob,")), Challenge)


def test_a_verdict_that_comes_later_has_the_same_effects() -> None:
    validator = Later()
    accepted = OAuthBearerExchange(validator, lambda: NOW_MS).evaluate(GOOD)
    begun = OAuthBearerExchange(validator, lambda: NOW_MS)
    refused = begun.evaluate(GOOD)
    assert isinstance(accepted, Deferred)
    assert isinstance(refused, Deferred)
    validator.asked[0].complete(Claims("alice", 5_000))
    validator.asked[1].complete(REFUSAL)
    assert accepted.value == ALICE
    assert refused.value == Challenge(b'{"status":"invalid_token"}', REFUSAL.reason)
    with pytest.raises(AuthenticationRefused):
        begun.evaluate(b"\x01")


def test_an_error_after_a_late_verdict_abandons_the_response() -> None:
    validator = Later()
    pending = OAuthBearerExchange(validator, lambda: NOW_MS).evaluate(
        GOOD.replace(b"n,,", b"n,a=bob,")
    )
    assert isinstance(pending, Deferred)
    failures: list[Exception | None] = []
    pending.on_abandon(lambda: failures.append(pending.failure))
    validator.asked[0].complete(Claims("alice", 5_000))
    assert [type(failure) for failure in failures] == [AuthenticationRefused]


def test_a_closed_connection_ends_the_wait_for_the_verdict() -> None:
    validator = Later()
    pending = OAuthBearerExchange(validator, lambda: NOW_MS).evaluate(GOOD)
    assert isinstance(pending, Deferred)
    pending.cancel()
    assert validator.asked[0].cancelled


def test_a_missing_scope_is_named_in_the_challenge() -> None:
    class Scoped:
        def validate(self, token: str, now_ms: int) -> InvalidToken:
            return InvalidToken("missing", "insufficient_scope", "[produce]")

    challenge = OAuthBearerExchange(Scoped(), lambda: NOW_MS).evaluate(GOOD)
    assert challenge == Challenge(
        b'{"status":"insufficient_scope", "scope":"[produce]"}', "missing"
    )
