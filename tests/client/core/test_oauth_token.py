"""A token's times, and when it is replaced: the arithmetic of Kafka's
ExpiringCredentialRefreshingLogin."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client.core.oauth_token import (
    AccessToken,
    OAuthTokenError,
    RefreshWindow,
    access_token,
    token_of_callback,
)
from oncelog_protocol.secret import Secret
from tests.harness.bearer_tokens import NOW_MS, NOW_S, claims, part

JWT = f"{part({'alg': 'RS256'})}.{part(claims())}.AAAA"


@pytest.mark.parametrize(
    ("life_s", "age_s", "randomness", "refresh_s"),
    [
        (3_600, 0, 0.0, 2_880),  # 0.8 of an hour
        (3_600, 0, 1.0, 3_060),  # 0.85 of an hour
        (3_600, 600, 0.0, 2_280),  # 0.8 of an hour since the token was issued
        (1_000, 0, 0.0, 700),  # 300 s before its end
        (600, 0, 1.0, 300),  # 300 s before its end
        (4_000, 3_200, 0.0, 60),  # not before 60 s
        (360, 0, 0.0, 60),  # 60 s and 300 s just fit
        (359, 0, 0.0, 287.2),  # they do not fit: 0.8 of the rest
        (10, 0, 0.5, 8.25),
    ],
)
def test_a_token_is_replaced_in_the_window_before_its_end(
    life_s: int, age_s: int, randomness: float, refresh_s: float
) -> None:
    issued = NOW_MS - age_s * 1000
    token = AccessToken(Secret("t"), issued + life_s * 1000, issued)
    found = RefreshWindow().refresh_ms(token, NOW_MS, randomness)
    assert found == NOW_MS + int(refresh_s * 1000)


def test_without_the_time_of_issue_the_life_begins_now_and_an_endless_token_stays() -> None:
    assert RefreshWindow().refresh_ms(
        AccessToken(Secret("t"), NOW_MS + 3_600_000), NOW_MS, 0.0
    ) == (NOW_MS + 2_880_000)
    assert RefreshWindow().refresh_ms(AccessToken(Secret("t")), NOW_MS, 0.0) is None


def test_the_settings_of_the_window_count() -> None:
    window = RefreshWindow(0.5, 0.2, 1, 2)
    token = AccessToken(Secret("t"), NOW_MS + 100_000, NOW_MS)
    assert window.refresh_ms(token, NOW_MS, 0.0) == NOW_MS + 50_000
    assert window.refresh_ms(token, NOW_MS, 1.0) == NOW_MS + 70_000


def test_the_times_of_a_jwt_are_those_of_its_claims() -> None:
    token = access_token(f" {JWT}\n")
    assert token == AccessToken(Secret(JWT), (NOW_S + 600) * 1000, (NOW_S - 60) * 1000)
    assert JWT not in repr(token)
    assert access_token(JWT, 5).expires_ms == 5


@pytest.mark.parametrize(
    "text",
    [
        "opaque",
        "a.b.c",
        "a.é.c",
        f"a.{part(['exp'])}.c",
        f"a.{part('[' * 50_000)}.c",
        f"a.{part({'exp': 'soon', 'iat': True})}.c",
        f"a.{part({'exp': 10**300, 'iat': -1})}.c",
        "a." + part('{"exp": 1e400}') + ".c",
        "a." + part('{"exp": NaN}') + ".c",
    ],
    ids=range(9),
)
def test_another_token_has_no_times(text: str) -> None:
    assert access_token(text) == AccessToken(Secret(text))


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_token_is_refused(text: str) -> None:
    with pytest.raises(OAuthTokenError, match="the OAuth token is empty"):
        access_token(text)


@pytest.mark.parametrize("first", ["S3cret", Secret("S3cret")])
def test_a_callback_returns_a_token_or_a_pair(first: Any) -> None:
    assert token_of_callback(first) == AccessToken(Secret("S3cret"))
    assert token_of_callback((first, 1.5)) == AccessToken(Secret("S3cret"), 1_500)
    assert token_of_callback((first, 7)) == AccessToken(Secret("S3cret"), 7_000)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "type NoneType"),
        (b"S3cret", "type bytes"),
        (("S3cret",), "type tuple"),
        (("S3cret", "soon"), "type tuple"),
        (("S3cret", True), "type tuple"),
        (("S3cret", NOW_MS), "must be in seconds"),
        (("S3cret", -1), "must be in seconds"),
        (("S3cret", float("nan")), "must be in seconds"),
        ("", "is empty"),
    ],
)
def test_another_value_of_a_callback_is_refused_without_its_token(
    value: object, message: str
) -> None:
    with pytest.raises(OAuthTokenError, match=message) as caught:
        token_of_callback(value)
    assert "S3cret" not in str(caught.value)


def test_a_token_has_expired_from_its_time_of_expiry() -> None:
    token = AccessToken(Secret("t"), 5)
    assert [token.has_expired(now) for now in (4, 5, 6)] == [False, True, True]
    assert not AccessToken(Secret("t")).has_expired(10**15)
