"""A JWKS gives only keys that may verify signatures (`oncelog_server.security.sasl.jwt` has the
Base64 of its numbers)."""

from __future__ import annotations

import builtins
import json
from typing import Any

import pytest
from joserfc.jwk import OKPKey, RSAKey

from oncelog_server.security.sasl.jwt import JwtError, decoded, read_jwt
from oncelog_server.security.sasl.verification_keys import (
    JwksError,
    SecurityExtraMissing,
    import_joserfc,
    read_jwks,
)
from tests.harness.bearer_tokens import Issuer, encoded


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"key_ops": "verify"},
        {"kty": "RSA2"},
        {"kty": "oct", "k": "AAAA"},
        {"kty": "EC"},
        {"kty": ["RSA"]},
        {"kid": 7},
        {"alg": 7},
        {"n": ""},
        {"n": "+/=="},
        {"n": None},
        {"e": ""},
        {"e": "AA"},
        {"n": encoded(b"\xff" * 128)},
    ],
    ids=json.dumps,
)
def test_a_key_that_cannot_verify_is_left_out(issuer: Issuer, change: dict[str, Any]) -> None:
    bad = {**issuer.public("rsa"), **change}
    good = issuer.public("p256")
    keys = read_jwks(json.dumps({"keys": [bad, good, "no object", None]}).encode())
    assert keys.kids == ["p256"]


def test_a_key_for_key_agreement_is_left_out_at_the_choice(issuer: Issuer) -> None:
    agreement = {**OKPKey.generate_key("X25519").as_dict(private=False), "kid": "x"}
    keys = read_jwks(json.dumps({"keys": [agreement, issuer.public("ed25519")]}).encode())
    assert keys.select("EdDSA", "x") is None
    chosen = keys.select("EdDSA", None)
    assert chosen is not None
    assert chosen.kid == "ed25519"


def test_a_key_that_names_its_algorithm_is_only_for_that(issuer: Issuer) -> None:
    keys = read_jwks(issuer.jwks("rsa", alg="PS256"))
    assert keys.select("PS256", "rsa") is not None
    assert keys.select("RS256", "rsa") is None


def test_a_private_key_in_a_jwks_is_read_as_a_public_key() -> None:
    private = RSAKey.generate_key(2048).as_dict(private=True)
    (key,) = read_jwks(json.dumps({"keys": [private]}).encode()).keys
    assert not key.key.is_private


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"<html>", "not JSON"),
        (b"[]", "a JSON object with a list `keys`"),
        (b"{}", "a JSON object with a list `keys`"),
        (b'{"keys": {}}', "a JSON object with a list `keys`"),
        (b'{"keys": []}', "none of its 0 keys can verify a token"),
        (b'{"keys": [{"kty": "oct", "k": "AAAA"}]}', "none of its 1 keys can verify a token"),
    ],
    ids=range(9),
)
def test_a_text_without_usable_keys_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(JwksError, match=message):
        read_jwks(text)


@pytest.mark.parametrize("part", ["a", "A===", "+A", "A/", "AA==", "AB", "AAB", "A A", "Ä"])
def test_base64_has_a_single_form(part: str) -> None:
    with pytest.raises(JwtError):
        decoded(part)


def test_a_token_shows_nothing_of_its_claims(issuer: Issuer) -> None:
    assert repr(read_jwt(issuer.token())) == "Jwt(alg='RS256')"


def test_without_joserfc_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("joserfc"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SecurityExtraMissing, match=r"pip install 'oncelog\[security\]'"):
        import_joserfc()
