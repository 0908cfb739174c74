"""Tokens with a signature, judged by the issuer's keys (KIP-768, Kafka's BrokerJwtValidator)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from oncelog_server.security.sasl.claims import Claims, InvalidToken, judge_claims, shown
from oncelog_server.security.sasl.jwt import JwtError, read_jwt
from oncelog_server.security.sasl.oauth_settings import OAuthSettings
from oncelog_server.security.sasl.verification_keys import ALGORITHMS, VerificationKeys, verifies

# Maximum length of a key id. Kafka does not fetch the keys again for a longer key id.
_MOST_KID: Final = 1000
_NESTED: Final = frozenset({"jwt", "application/jwt"})


class UnknownKey(msgspec.Struct, frozen=True):
    """No known key fits the token. The issuer may have a new key, so the keys are fetched again."""

    algorithm: str
    kid: str | None

    def refused(self) -> InvalidToken:
        """Return the verdict if the keys are up to date, or cannot be fetched now."""
        return InvalidToken(f"no key of the JWKS fits kid={shown(self.kid)}, alg={self.algorithm}")


def judge(
    token: str, keys: VerificationKeys, settings: OAuthSettings, now_ms: int
) -> Claims | InvalidToken | UnknownKey:
    """Judge a token by `keys` at the time `now_ms` (ms since the epoch).

    Only the id in the header (`kid`) chooses a key. The header's own keys, certificates and URLs
    (`jwk`, `jku`, `x5c`, `x5u`) are ignored, because the author of the token wrote them.
    """
    try:
        parts = read_jwt(token)
    except JwtError as error:
        return InvalidToken(str(error))
    header = parts.header
    refusal = _refusal(header)
    if refusal is not None:
        return InvalidToken(refusal)
    algorithm, kid = header["alg"], header.get("kid")
    key = keys.select(algorithm, kid)
    if key is None:
        return UnknownKey(algorithm, kid)
    if not verifies(key, parts, algorithm):
        return InvalidToken(f"the signature is not of the key with kid={shown(key.kid)}")
    return judge_claims(parts.claims, settings, now_ms)


def _refusal(header: dict[str, Any]) -> str | None:
    """Return the reason to refuse a token by its header, or None."""
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        return f"the algorithm {shown(algorithm)} is not allowed"
    if "crit" in header:
        # Critical extensions change how a token is verified. None is supported (RFC 7515, 4.1.11).
        return f"the critical extensions {shown(header['crit'])} are not supported"
    content = header.get("cty")
    if isinstance(content, str) and content.lower() in _NESTED:
        return "a token inside a token is not supported"
    if kid is not None and not isinstance(kid, str):
        return "the key id is not a text"
    if kid is not None and len(kid) > _MOST_KID:
        return f"the key id has {len(kid)} characters, more than {_MOST_KID}"
    return None
