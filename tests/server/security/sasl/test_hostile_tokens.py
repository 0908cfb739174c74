"""Any text as a token, any JSON as its parts, and any bytes as a JWKS lead to a verdict, never to
another exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.oauth_settings import OAuthSettings, UnsecuredOptions
from oncelog_server.security.sasl.signed_tokens import UnknownKey, judge
from oncelog_server.security.sasl.unsecured_tokens import UnsecuredTokens
from oncelog_server.security.sasl.verification_keys import JwksError, VerificationKeys, read_jwks
from tests.harness.bearer_tokens import AUDIENCE, ISSUER, NOW_MS, NOW_S, Issuer, part, sign

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([NOW_S, NOW_S + 60, AUDIENCE, ISSUER, "rsa", "RS256", "none", "AAAA", "P-256"]),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(), SCALARS))
CLAIM_NAMES = ("sub", "iss", "aud", "exp", "iat", "nbf", "scope", "jti")
HEADER_NAMES = ("alg", "kid", "crit", "cty", "jku", "jwk", "x5c", "b64")
KEY_NAMES = ("kty", "use", "key_ops", "alg", "kid", "n", "e", "crv", "x", "y", "d", "k")
SETTINGS = OAuthSettings(expected_issuer=ISSUER, expected_audience=(AUDIENCE,))


def some(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names))


@given(st.text(), st.text("ab.-_=+/", max_size=30))
def test_any_text_is_refused(text: str, near: str) -> None:
    keys = VerificationKeys(())
    for token in (text, near):
        assert isinstance(judge(token, keys, SETTINGS, NOW_MS), InvalidToken)
        assert isinstance(UnsecuredTokens(UnsecuredOptions()).validate(token, NOW_MS), InvalidToken)


@settings(max_examples=400)
@given(header=some(HEADER_NAMES), claims=some(CLAIM_NAMES))
def test_any_header_and_claims_get_a_verdict(
    issuer: Issuer, header: dict[str, Any], claims: dict[str, Any]
) -> None:
    keys = read_jwks(issuer.jwks("rsa", "p256"))
    forged = f"{part(header)}.{part(claims)}.AAAA"
    assert isinstance(judge(forged, keys, SETTINGS, NOW_MS), InvalidToken | UnknownKey)
    own = sign(issuer.keys["rsa"], {"alg": "RS256", "kid": "rsa"}, claims)
    assert isinstance(judge(own, keys, SETTINGS, NOW_MS), Claims | InvalidToken)
    unsigned = f"{part({**header, 'alg': 'none'})}.{part(claims)}."
    verdict = UnsecuredTokens(UnsecuredOptions()).validate(unsigned, NOW_MS)
    assert isinstance(verdict, Claims | InvalidToken)


@settings(max_examples=400)
@given(kid=st.sampled_from(["rsa", "p256", "ed25519"]), changes=some(KEY_NAMES))
def test_any_change_of_a_key_leaves_a_jwks_or_an_error(
    issuer: Issuer, kid: str, changes: dict[str, Any]
) -> None:
    member = {**issuer.public(kid), **changes}
    try:
        keys = read_jwks(json.dumps({"keys": [member, changes]}).encode())
    except JwksError:
        return
    assert keys.keys
    for algorithm in ("RS256", "ES256", "EdDSA"):
        keys.select(algorithm, None)


@given(st.binary(max_size=50), VALUES)
def test_any_bytes_as_a_jwks_are_refused(data: bytes, value: object) -> None:
    for text in (data, json.dumps(value).encode(), json.dumps({"keys": value}).encode()):
        try:
            read_jwks(text)
        except JwksError:
            continue
        raise AssertionError(text)
