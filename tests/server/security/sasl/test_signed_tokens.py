"""A token with a signature is accepted only with a key of the issuer and good claims. Each bad
token is refused with its reason (`oncelog_server.security.sasl.claims` has the rules of claims)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.jwt import decoded
from oncelog_server.security.sasl.oauth_settings import OAuthSettings
from oncelog_server.security.sasl.signed_tokens import UnknownKey, judge
from oncelog_server.security.sasl.verification_keys import ALGORITHMS, VerificationKeys, read_jwks
from tests.harness.bearer_tokens import (
    AUDIENCE,
    ISSUER,
    NOW_MS,
    NOW_S,
    Issuer,
    claims,
    encoded,
    part,
    sign,
)

SETTINGS = OAuthSettings(
    jwks_endpoint_url="https://issuer.test/keys",
    expected_issuer=ISSUER,
    expected_audience=(AUDIENCE, "other"),
)
SKEW_S = SETTINGS.clock_skew_seconds
KEY_OF = {"RS": "rsa", "PS": "rsa", "ES256": "p256", "ES384": "p384", "ES512": "p521"}


@pytest.fixture(scope="module")
def keys(issuer: Issuer) -> VerificationKeys:
    return read_jwks(issuer.jwks())


def reason(token: str, keys: VerificationKeys, settings: OAuthSettings = SETTINGS) -> str:
    """Return the reason of a refusal."""
    verdict = judge(token, keys, settings, NOW_MS)
    if isinstance(verdict, UnknownKey):
        verdict = verdict.refused()
    assert isinstance(verdict, InvalidToken), verdict
    assert (verdict.status, verdict.scope) == ("invalid_token", None)
    assert token not in verdict.reason
    return verdict.reason


@pytest.mark.parametrize("alg", sorted(ALGORITHMS))
def test_a_token_of_each_allowed_algorithm_is_accepted(
    issuer: Issuer, keys: VerificationKeys, alg: str
) -> None:
    kid = KEY_OF.get(alg, KEY_OF.get(alg[:2], "ed25519"))
    token = issuer.token(kid, alg)
    expected = Claims("alice", (NOW_S + 600) * 1000)
    assert judge(token, keys, SETTINGS, NOW_MS) == expected


def test_the_second_curve_of_eddsa_is_accepted(issuer: Issuer, keys: VerificationKeys) -> None:
    assert isinstance(judge(issuer.token("ed448", "EdDSA"), keys, SETTINGS, NOW_MS), Claims)


def test_a_token_without_a_key_id_is_judged_by_the_first_key_that_fits(
    issuer: Issuer, keys: VerificationKeys
) -> None:
    token = sign(issuer.keys["p384"], {"alg": "ES384"}, claims())
    assert isinstance(judge(token, keys, SETTINGS, NOW_MS), Claims)


BAD_TOKENS: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "none": (
        lambda _: f"{part({'alg': 'none'})}.{part(claims())}.",
        "the algorithm 'none' is not allowed",
    ),
    "none in capitals": (
        lambda _: f"{part({'alg': 'nOnE'})}.{part(claims())}.",
        "the algorithm 'nOnE' is not allowed",
    ),
    "HS256 with the public key": (
        lambda issuer: issuer.confused("rsa", "HS256"),
        "the algorithm 'HS256' is not allowed",
    ),
    "HS512 with the public key": (
        lambda issuer: issuer.confused("rsa", "HS512"),
        "the algorithm 'HS512' is not allowed",
    ),
    "no algorithm": (
        lambda _: f"{part({'kid': 'rsa'})}.{part(claims())}.AAAA",
        "the algorithm None is not allowed",
    ),
    "an algorithm that is no text": (
        lambda _: f"{part({'alg': ['RS256']})}.{part(claims())}.AAAA",
        "the algorithm ['RS256'] is not allowed",
    ),
    "crit": (
        lambda issuer: issuer.token(crit=["exp"], exp=NOW_S),
        "the critical extensions ['exp'] are not supported",
    ),
    "unencoded payload (RFC 7797)": (
        lambda issuer: issuer.token(crit=["b64"], b64=False),
        "the critical extensions ['b64'] are not supported",
    ),
    "unknown kid": (
        lambda issuer: sign(issuer.keys["rsa"], {"alg": "RS256", "kid": "new"}, claims()),
        "no key of the JWKS fits kid='new', alg=RS256",
    ),
    "a kid of another type of key": (
        lambda issuer: sign(issuer.keys["rsa"], {"alg": "RS256", "kid": "p256"}, claims()),
        "no key of the JWKS fits kid='p256', alg=RS256",
    ),
    "a curve of another algorithm": (
        lambda issuer: sign(issuer.keys["p384"], {"alg": "ES256", "kid": "p384"}, claims()),
        "no key of the JWKS fits kid='p384', alg=ES256",
    ),
    "a kid that is no text": (
        lambda issuer: sign(issuer.keys["rsa"], {"alg": "RS256", "kid": 7}, claims()),
        "the key id is not a text",
    ),
    "a kid of 1001 characters": (
        lambda issuer: sign(issuer.keys["rsa"], {"alg": "RS256", "kid": "k" * 1001}, claims()),
        "the key id has 1001 characters, more than 1000",
    ),
    "a changed bit": (
        lambda issuer: _with_changed_bit(issuer.token()),
        "the signature is not of the key with kid='rsa'",
    ),
    "another signature": (
        lambda issuer: f"{issuer.token().rpartition('.')[0]}.{encoded(bytes(256))}",
        "the signature is not of the key with kid='rsa'",
    ),
    "no signature": (
        lambda issuer: issuer.token().rpartition(".")[0] + ".",
        "the signature is not of the key with kid='rsa'",
    ),
    "other claims under the signature": (
        lambda issuer: _swapped(issuer.token(), claims(sub="admin")),
        "the signature is not of the key with kid='rsa'",
    ),
    "the key of another issuer": (
        lambda _: sign(RSAKey.generate_key(2048), {"alg": "RS256", "kid": "rsa"}, claims()),
        "the signature is not of the key with kid='rsa'",
    ),
    "not a JWT": (lambda _: "opaque", "not a JWT: it has 1 parts between dots, not 3"),
    "encrypted": (lambda _: "a.b.c.d.e", "not a JWT: it has 5 parts between dots, not 3"),
    "huge": (
        lambda issuer: issuer.token(payload=claims(roles="r" * 60_000)),
        "more than 65536",
    ),
    "expired": (
        lambda issuer: issuer.token(payload=claims(exp=NOW_S - SKEW_S)),
        f"the token has expired: exp={NOW_S - SKEW_S}, and now it is {NOW_S}",
    ),
    "no exp": (
        lambda issuer: issuer.token(payload=claims(exp=None)),
        "the claim 'exp' is missing",
    ),
    "exp as text": (
        lambda issuer: issuer.token(payload=claims(exp=str(NOW_S + 600))),
        "the claim 'exp' is not a number",
    ),
    "exp as a boolean": (
        lambda issuer: issuer.token(payload=claims(exp=True)),
        "the claim 'exp' is not a number",
    ),
    "endless exp": (
        lambda issuer: issuer.token(payload=json.dumps(claims(exp=0)).replace(" 0}", " 1e400}")),
        "the claim 'exp' is out of range",
    ),
    "no iat": (
        lambda issuer: issuer.token(payload=claims(iat=None)),
        "the claim 'iat' is missing",
    ),
    "negative iat": (
        lambda issuer: issuer.token(payload=claims(iat=-1)),
        "a time is negative",
    ),
    "issued after its end": (
        lambda issuer: issuer.token(payload=claims(iat=NOW_S + 601)),
        f"exp={NOW_S + 600} is before iat={NOW_S + 601}",
    ),
    "begins after its end": (
        lambda issuer: issuer.token(payload=claims(nbf=NOW_S + 601)),
        f"exp={NOW_S + 600} is before nbf={NOW_S + 601}",
    ),
    "not yet valid": (
        lambda issuer: issuer.token(payload=claims(nbf=NOW_S + SKEW_S + 1)),
        f"the token is not valid yet: nbf={NOW_S + SKEW_S + 1}, and now it is {NOW_S}",
    ),
    "wrong issuer": (
        lambda issuer: issuer.token(payload=claims(iss="https://evil.test")),
        f"the issuer is 'https://evil.test', not {ISSUER}",
    ),
    "no issuer": (
        lambda issuer: issuer.token(payload=claims(iss=None)),
        "the claim 'iss' is missing",
    ),
    "wrong audience": (
        lambda issuer: issuer.token(payload=claims(aud=["mail", "web"])),
        "the audience is ['mail', 'web'], not kafka or other",
    ),
    "no audience": (
        lambda issuer: issuer.token(payload=claims(aud=None)),
        "the claim 'aud' is missing",
    ),
    "audience of another type": (
        lambda issuer: issuer.token(payload=claims(aud=[AUDIENCE, 1])),
        "the claim 'aud' is neither a text nor a list of texts",
    ),
    "no subject": (
        lambda issuer: issuer.token(payload=claims(sub=None)),
        "the claim 'sub' is missing",
    ),
    "blank subject": (
        lambda issuer: issuer.token(payload=claims(sub=" \t")),
        "the claim 'sub' is blank",
    ),
    "subject of another type": (
        lambda issuer: issuer.token(payload=claims(sub=["alice"])),
        "the claim 'sub' is not a text",
    ),
    "subject with half a surrogate pair": (
        lambda issuer: issuer.token(payload=claims(sub="a\ud800")),
        "the claim 'sub' is not Unicode text",
    ),
    "jti of another type": (
        lambda issuer: issuer.token(payload=claims(jti=1)),
        "the claim 'jti' is not a text",
    ),
    "a scope twice": (
        lambda issuer: issuer.token(payload=claims(scope=["read", " read"])),
        "the claim 'scope' has 'read' twice",
    ),
    "an empty scope": (
        lambda issuer: issuer.token(payload=claims(scope=["read", ""])),
        "the claim 'scope' is blank",
    ),
    "a claim twice": (
        lambda issuer: issuer.token(payload=json.dumps(claims())[:-1] + ', "sub": "admin"}'),
        "not a JWT: a part is not JSON, or has a key twice",
    ),
    "claims that are no object": (
        lambda issuer: issuer.token(payload=["alice"]),
        "not a JWT: a part is not a JSON object",
    ),
    "nested": (
        lambda issuer: issuer.token(payload=issuer.token()),
        "not a JWT: a part is not JSON, or has a key twice",
    ),
    "said to be nested": (
        lambda issuer: issuer.token(cty="Application/JWT"),
        "a token inside a token is not supported",
    ),
    "deep": (
        lambda issuer: issuer.token(payload="[" * 40_000),
        "not a JWT: a part is not JSON, or has a key twice",
    ),
}


def _swapped(token: str, payload: object) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{part(payload)}.{signature}"


def _with_changed_bit(token: str) -> str:
    signed, _, signature = token.rpartition(".")
    data = bytearray(decoded(signature))
    data[100] ^= 1
    return f"{signed}.{encoded(bytes(data))}"


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_bad_token_is_refused_with_its_reason(
    issuer: Issuer, keys: VerificationKeys, name: str
) -> None:
    make, expected = BAD_TOKENS[name]
    found = reason(make(issuer), keys)
    assert expected in found
    assert len(found) < 400


@pytest.mark.parametrize(
    "header",
    [
        {"jku": "https://evil.test/keys"},
        {"x5u": "https://evil.test/certificate"},
        {"jku": 7, "x5u": None, "x5t": "AAAA"},
        {"nonce": "n", "typ": "at+jwt", "x5c": ["AAAA"] * 200},
    ],
    ids=["jku", "x5u", "malformed", "others"],
)
def test_other_members_of_the_header_are_ignored(
    issuer: Issuer, keys: VerificationKeys, header: dict[str, Any]
) -> None:
    """A URL in the header is never followed, and a key in it is never used."""
    assert isinstance(judge(issuer.token(**header), keys, SETTINGS, NOW_MS), Claims)


def test_a_key_in_the_header_does_not_verify_a_token(
    issuer: Issuer, keys: VerificationKeys
) -> None:
    own = RSAKey.generate_key(2048)
    header = {"alg": "RS256", "kid": "rsa", "jwk": own.as_dict(private=False)}
    assert "the signature is not of the key" in reason(sign(own, header, claims()), keys)


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({"exp": NOW_S - SKEW_S + 1}, {}),
        ({"nbf": NOW_S + SKEW_S}, {}),
        ({"nbf": NOW_S, "exp": NOW_S + 0.9}, {}),
        ({"iat": NOW_S + 500}, {}),
        ({"aud": ["mail", "other"]}, {}),
        ({"aud": None}, {"expected_audience": ()}),
        ({"iss": None}, {"expected_issuer": None}),
        ({"iss": "any"}, {"expected_issuer": None}),
        ({"sub": None, "mail": "alice"}, {"sub_claim_name": "mail"}),
        ({"sub": " alice\n"}, {}),
        ({"scope": 7}, {}),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_claims_at_the_edge_of_the_rules_are_accepted(
    issuer: Issuer, keys: VerificationKeys, changed: dict[str, Any], settings: dict[str, Any]
) -> None:
    changed_settings = OAuthSettings(
        **{
            "expected_issuer": ISSUER,
            "expected_audience": (AUDIENCE, "other"),
            **settings,
        }
    )
    verdict = judge(issuer.token(payload=claims(**changed)), keys, changed_settings, NOW_MS)
    assert isinstance(verdict, Claims), verdict
    assert verdict.subject == "alice"


def test_an_audience_without_an_expected_audience_is_refused(
    issuer: Issuer, keys: VerificationKeys
) -> None:
    """The token is for another service, as far as the broker knows. Kafka refuses it too."""
    found = reason(issuer.token(), keys, OAuthSettings(expected_issuer=ISSUER))
    assert "sasl.oauthbearer.expected.audience is not set" in found


def test_a_scope_is_a_text_or_a_list(issuer: Issuer, keys: VerificationKeys) -> None:
    def scopes(value: object, **settings: Any) -> frozenset[str]:
        token = issuer.token(payload={**claims(), "scope": value, "scp": ["own"]})
        changed = OAuthSettings(expected_issuer=ISSUER, expected_audience=(AUDIENCE,), **settings)
        verdict = judge(token, keys, changed, NOW_MS)
        assert isinstance(verdict, Claims), verdict
        return verdict.scopes

    assert scopes(" read write ") == {"read write"}
    assert scopes(["read", "write"]) == {"read", "write"}
    assert scopes([], scope_claim_name="scp") == {"own"}
