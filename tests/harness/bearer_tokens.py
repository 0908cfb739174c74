"""An issuer of bearer tokens with keys of every type. Headers and claims may be wrong."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER = "https://issuer.test"
AUDIENCE = "kafka"
NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value: object) -> str:
    """Return a part of a token: a value as JSON, or a text as it is."""
    text = value if isinstance(value, str) else json.dumps(value)
    return encoded(text.encode())


def claims(now_s: int = NOW_S, **changed: Any) -> dict[str, Any]:
    """Return good claims of alice, with changes. A claim that is changed to None is left out."""
    good = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s - 60, "exp": now_s + 600}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def sign(key: Key, header: dict[str, Any], payload: object) -> str:
    """Return a token with the signature of `header["alg"]`. The key is used as it is."""
    signed = f"{part(header)}.{part(payload)}"
    model = JWSRegistry.algorithms[header["alg"]]
    return f"{signed}.{encoded(model.sign(signed.encode(), key))}"


class Issuer:
    """Keys by their ids. `token` signs with the key of `kid`."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {
            "rsa": RSAKey.generate_key(2048),
            "p256": ECKey.generate_key("P-256"),
            "p384": ECKey.generate_key("P-384"),
            "p521": ECKey.generate_key("P-521"),
            "ed25519": OKPKey.generate_key("Ed25519"),
            "ed448": OKPKey.generate_key("Ed448"),
        }

    def jwks(self, *kids: str, **members: Any) -> bytes:
        """Return the public keys with these ids, all by default, each with further `members`."""
        return json.dumps(
            {"keys": [self.public(kid, **members) for kid in kids or self.keys]}
        ).encode()

    def public(self, kid: str, **members: Any) -> dict[str, Any]:
        return {**self.keys[kid].as_dict(private=False), "kid": kid, **members}

    def token(
        self, kid: str = "rsa", alg: str = "RS256", payload: object = None, **header: Any
    ) -> str:
        """Return a token of alice, or with another payload. Header values of None are left out."""
        whole = {"alg": alg, "typ": "JWT", "kid": kid, **header}
        kept = {name: value for name, value in whole.items() if value is not None}
        return sign(self.keys[kid], kept, claims() if payload is None else payload)

    def confused(self, kid: str, alg: str) -> str:
        """Return a token with HS256 and its kin. The secret is the text of the public key, which
        every client knows."""
        public = self.keys[kid]
        assert isinstance(public, RSAKey)
        signed = f"{part({'alg': alg, 'kid': kid})}.{part(claims())}"
        digest = hmac.digest(public.as_pem(private=False), signed.encode(), f"sha{alg[2:]}")
        return f"{signed}.{encoded(digest)}"
