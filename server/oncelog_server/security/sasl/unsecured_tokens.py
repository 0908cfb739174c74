"""Tokens without a signature, for tests. The rules are those of Kafka's
OAuthBearerUnsecuredValidatorCallbackHandler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oncelog_protocol.security.oauthbearer import INSUFFICIENT_SCOPE
from oncelog_server.security.sasl.claims import (
    ClaimError,
    Claims,
    InvalidToken,
    seconds,
    text,
    trimmed,
)
from oncelog_server.security.sasl.jwt import JwtError, read_jwt
from oncelog_server.security.sasl.oauth_settings import UnsecuredOptions


class UnsecuredTokens:
    """The `TokenValidator` of `oncelog.sasl.oauthbearer.unsecured=true`."""

    def __init__(self, options: UnsecuredOptions) -> None:
        self._options = options

    def validate(self, token: str, now_ms: int) -> Claims | InvalidToken:
        """Judge a token at the time `now_ms` (ms since the epoch)."""
        options = self._options
        try:
            parts = read_jwt(token)
            if parts.header.get("alg") != "none":
                return InvalidToken("the algorithm of an unsecured token must be 'none'")
            if parts.signature:
                return InvalidToken("an unsecured token must not have a signature")
            scopes = _scopes(parts.claims, options.scope_claim_name)
            expires_s = _check_times(parts.claims, options.clock_skew_ms, now_ms)
            subject = text(parts.claims, options.principal_claim_name)
        except (ClaimError, JwtError) as error:
            return InvalidToken(str(error))
        if subject is None or not trimmed(subject):
            return InvalidToken(f"the claim {options.principal_claim_name!r} is missing or blank")
        missing = [scope for scope in options.required_scope if scope not in scopes]
        if missing:
            required = f"[{', '.join(options.required_scope)}]"
            return InvalidToken(
                f"the scope {missing[0]!r} is missing, required are {required}",
                INSUFFICIENT_SCOPE,
                required,
            )
        # Java's Math.round rounds halves up.
        return Claims(subject, math.floor(expires_s * 1000 + 0.5), scopes)


def _check_times(claims: Mapping[str, Any], skew_ms: int, now_ms: int) -> float:
    """Return the claim `exp` in seconds. Raises ClaimError."""
    expires, issued = seconds(claims, "exp"), seconds(claims, "iat")
    if expires is None:
        raise ClaimError("the claim 'exp' is missing")
    if issued is not None and 1000 * issued > now_ms + skew_ms:
        raise ClaimError(f"the token was issued in the future: iat={issued}")
    if now_ms - skew_ms >= 1000 * expires:
        raise ClaimError(f"the token has expired: exp={expires}")
    if issued is not None and expires <= issued:
        raise ClaimError(f"exp={expires} is not after iat={issued}")
    return expires


def _scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes: a text is a single scope, a list has one in each element. Blank scopes are
    left out. Raises ClaimError for another type."""
    value = claims.get(name)
    listed = [value] if isinstance(value, str) else value
    if listed is None:
        return frozenset()
    if not isinstance(listed, list):
        raise ClaimError(f"the claim {name!r} is neither a text nor a list")
    return frozenset(trimmed(str(scope)) for scope in listed) - {""}
