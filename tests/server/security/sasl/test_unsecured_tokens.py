"""Tokens without a signature follow the rules of Kafka's unsecured validator
(tests/conformance/oauthbearer compares the two)."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.oauth_settings import UnsecuredOptions
from oncelog_server.security.sasl.unsecured_tokens import UnsecuredTokens
from tests.harness.bearer_tokens import NOW_MS, NOW_S, Issuer, part


def verdict(
    claims: dict[str, Any], options: UnsecuredOptions | None = None, alg: object = "none"
) -> Claims | InvalidToken:
    token = f"{part({'alg': alg})}.{part(claims)}."
    return UnsecuredTokens(options or UnsecuredOptions()).validate(token, NOW_MS)


def test_a_token_without_a_signature_is_accepted() -> None:
    assert verdict({"sub": "alice", "exp": NOW_S + 1.2345, "scope": ["a", " "]}) == Claims(
        "alice", NOW_MS + 1235, frozenset({"a"})
    )


def test_a_signature_is_refused_whatever_it_is(issuer: Issuer) -> None:
    refused = UnsecuredTokens(UnsecuredOptions()).validate(issuer.token(), NOW_MS)
    assert isinstance(refused, InvalidToken)
    unsigned = f"{part({'alg': 'none'})}.{part({'sub': 'a', 'exp': NOW_S + 1})}.AAAA"
    assert UnsecuredTokens(UnsecuredOptions()).validate(unsigned, NOW_MS) == InvalidToken(
        "an unsecured token must not have a signature"
    )


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": "a"}, "the claim 'exp' is missing"),
        ({"sub": "a", "exp": "1"}, "the claim 'exp' is not a number"),
        ({"sub": "a", "exp": NOW_S}, "has expired"),
        ({"sub": "a", "exp": NOW_S + 9, "iat": NOW_S + 1}, "issued in the future"),
        ({"sub": "a", "exp": NOW_S + 9, "iat": "1"}, "the claim 'iat' is not a number"),
        ({"exp": NOW_S + 9}, "the claim 'sub' is missing or blank"),
        ({"exp": NOW_S + 9, "sub": " "}, "the claim 'sub' is missing or blank"),
        ({"exp": NOW_S + 9, "sub": 1}, "the claim 'sub' is not a text"),
        ({"exp": NOW_S + 9, "sub": "a", "scope": 1}, "neither a text nor a list"),
    ],
)
def test_bad_claims_are_refused(claims: dict[str, Any], reason: str) -> None:
    refused = verdict(claims)
    assert isinstance(refused, InvalidToken)
    assert reason in refused.reason


def test_the_options_change_the_claims_and_the_clock_skew() -> None:
    options = UnsecuredOptions("mail", "scp", ("read",), 2_000)
    claims = {"mail": "m", "scp": ["read", "write"], "exp": NOW_S - 1, "iat": NOW_S - 2}
    assert isinstance(verdict(claims, options), Claims)
    assert isinstance(verdict({**claims, "iat": NOW_S - 1}, options), InvalidToken)
    assert isinstance(verdict({**claims, "exp": NOW_S - 2, "iat": 0}, options), InvalidToken)
    refused = verdict({**claims, "scp": ["write"]}, options)
    assert refused == InvalidToken(
        "the scope 'read' is missing, required are [read]", "insufficient_scope", "[read]"
    )


@pytest.mark.parametrize("alg", ["RS256", "NONE", None, ["none"]])
def test_only_the_algorithm_none_is_unsecured(alg: object) -> None:
    assert isinstance(verdict({"sub": "a", "exp": NOW_S + 9}, alg=alg), InvalidToken)
