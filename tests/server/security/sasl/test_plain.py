"""The broker's side of PLAIN. `tests/conformance/sasl` compares it with Kafka's."""

from __future__ import annotations

import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import Authenticated, AuthenticationRefused
from oncelog_server.security.sasl.plain import PlainExchange, PlainUsers

USERS = PlainUsers({"alice": Secret("S3cret"), "é,=": Secret("ñ"), "empty": Secret("")}, b"key")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


def refused(token: bytes) -> AuthenticationRefused:
    with pytest.raises(AuthenticationRefused) as raised:
        PlainExchange(USERS).evaluate(token)
    return raised.value


@pytest.mark.parametrize("authorization_id", [b"", b"alice"])
def test_the_password_authenticates_a_user(authorization_id: bytes) -> None:
    result = PlainExchange(USERS).evaluate(authorization_id + b"\0alice\0S3cret")

    assert result == Authenticated(b"", Principal("User", "alice"))


@given(TEXT, TEXT)
def test_every_name_and_password_authenticates_itself_alone(name: str, password: str) -> None:
    users = PlainUsers({name: Secret(password)}, b"key")
    token = PlainClient(name, Secret(password)).first()

    assert PlainExchange(users).evaluate(token).principal == Principal("User", name)
    with pytest.raises(AuthenticationRefused):
        PlainExchange(users).evaluate(token + b"x")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0S3cret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 60_000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0S3cret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0empty\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0alice\0\xff", "Authentication failed: Invalid username or password"),
        (b"\0ALICE\0S3cret", "Authentication failed: Invalid username or password"),
        (b"\0al\xffice\0S3cret", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0S3cret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_a_wrong_token_is_refused_with_kafkas_message(token: bytes, message: str) -> None:
    refusal = refused(token)

    assert str(refusal) == message
    assert "S3cret" not in f"{refusal!r} {refusal.reason}"


def test_only_the_log_shows_that_a_user_does_not_exist() -> None:
    wrong, unknown = refused(b"\0alice\0x"), refused(b"\0bob\0x")

    assert str(wrong) == str(unknown)
    assert (wrong.reason, unknown.reason) == ("wrong password: 'alice'", "unknown user: 'bob'")


def test_the_log_gets_no_control_characters_and_no_long_names() -> None:
    reason = refused(b"\0\x1b[2J\xff" + b"a" * 60_000 + b"\0x").reason

    assert reason.isprintable()
    assert len(reason) < 150


def test_an_unknown_user_costs_the_same_hash_and_comparison(
    hashes: Callable[[Callable[[], object]], list[str]],
) -> None:
    known = hashes(lambda: refused(b"\0alice\0wrong"))
    unknown = hashes(lambda: refused(b"\0bob\0wrong"))

    assert known == unknown == [hmac.digest.__name__, hmac.compare_digest.__name__]


def test_a_password_that_begins_as_the_right_one_costs_no_more(
    hashes: Callable[[Callable[[], object]], list[str]],
) -> None:
    """Only hashes of one length are compared, so the length of a password stays unknown."""
    assert hashes(lambda: refused(b"\0alice\0S3cre")) == hashes(lambda: refused(b"\0alice\0x"))
