"""The verdicts on a bearer token, and the claims of a token with the rules of Kafka's
BrokerJwtValidator and of its library jose4j."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from oncelog_protocol.security.oauthbearer import INVALID_TOKEN
from oncelog_server.deferred import Deferred
from oncelog_server.security.sasl.oauth_settings import OAuthSettings

_TRIMMED: Final = "".join(map(chr, range(0x21)))
# jose4j refuses times that do not fit into 64 bits of ms. This limit is the year 285 million.
_MOST_SECONDS: Final = 2**53
_MOST_SHOWN: Final = 100


class Claims(msgspec.Struct, frozen=True):
    """The claims of an accepted token: `subject` is the name of the user, `expires_ms` is in ms
    since the epoch."""

    subject: str
    expires_ms: int
    scopes: frozenset[str] = frozenset()


class InvalidToken(msgspec.Struct, frozen=True):
    """The refusal of a token. `reason` is for the log of the broker and never contains the token.
    The client gets only `status` and `scope`, as in RFC 7628, section 3.2.2."""

    reason: str
    status: str = INVALID_TOKEN
    scope: str | None = None


class TokenValidator(Protocol):
    def validate(
        self, token: str, now_ms: int
    ) -> Claims | InvalidToken | Deferred[Claims | InvalidToken]:
        """Judge a token at the time `now_ms` (ms since the epoch)."""
        ...


class ClaimError(Exception):
    """A claim is missing, malformed or refused. The message is the reason for the broker's log."""


def judge_claims(
    claims: Mapping[str, Any], settings: OAuthSettings, now_ms: int
) -> Claims | InvalidToken:
    """Judge the claims of a token with a valid signature, at the time `now_ms`."""
    try:
        _check_audience(claims, settings.expected_audience)
        _check_issuer(claims, settings.expected_issuer)
        expires_s = _check_times(claims, settings.clock_skew_seconds, now_ms // 1000)
        # jose4j requires that these two are texts, even if another claim names the user.
        for name in ("sub", "jti"):
            text(claims, name)
        return Claims(
            _required(settings.sub_claim_name, text(claims, settings.sub_claim_name)),
            expires_s * 1000,
            _scopes(claims, settings.scope_claim_name),
        )
    except ClaimError as error:
        return InvalidToken(str(error))


def text(claims: Mapping[str, Any], name: str) -> str | None:
    """Return the text of a claim, None without it. Raises ClaimError for another type."""
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise ClaimError(f"the claim {name!r} is not a text")
    if value is not None and not _is_unicode(value):
        raise ClaimError(f"the claim {name!r} is not Unicode text")
    return value


def seconds(claims: Mapping[str, Any], name: str) -> int | float | None:
    """Return a claim that is a time in seconds, None without it. Raises ClaimError for another type
    and for times out of range."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ClaimError(f"the claim {name!r} is not a number")
    if not -_MOST_SECONDS <= value <= _MOST_SECONDS:
        raise ClaimError(f"the claim {name!r} is out of range")
    return value


def trimmed(text: str) -> str:
    """Return a text without blanks and control characters at its ends, as Java's String.trim."""
    return text.strip(_TRIMMED)


def shown(value: object) -> str:
    """Return a value of a token for the broker's log, of limited length."""
    whole = repr(value)
    return whole if len(whole) <= _MOST_SHOWN else f"{whole[:_MOST_SHOWN]}…"


def _check_audience(claims: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    """Raise ClaimError unless the token is for an expected audience. Without expected audiences, a
    token that names an audience is for another service, as in jose4j."""
    audience = claims.get("aud")
    if audience is None:
        if expected:
            raise ClaimError("the claim 'aud' is missing")
        return
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ClaimError("the claim 'aud' is neither a text nor a list of texts")
    if not expected:
        raise ClaimError(
            f"the audience is {shown(audience)}, and sasl.oauthbearer.expected.audience is not set"
        )
    if not set(named) & set(expected):
        raise ClaimError(f"the audience is {shown(audience)}, not {' or '.join(expected)}")


def _check_issuer(claims: Mapping[str, Any], expected: str | None) -> None:
    issuer = text(claims, "iss")
    if expected and issuer is None:
        raise ClaimError("the claim 'iss' is missing")
    if expected and issuer != expected:
        raise ClaimError(f"the issuer is {shown(issuer)}, not {expected}")


def _check_times(claims: Mapping[str, Any], skew_s: int, now_s: int) -> int:
    """Return the claim `exp` in seconds. Raises ClaimError if the token has expired, is not valid
    yet, or has times that contradict each other. An `iat` in the future is accepted, as in Kafka.
    """
    # As in jose4j, fractions of a second are cut off.
    times = {name: int(seconds(claims, name) or 0) for name in ("exp", "iat", "nbf")}
    for name in ("exp", "iat"):
        if claims.get(name) is None:
            raise ClaimError(f"the claim {name!r} is missing")
    expires, issued, begins = times["exp"], times["iat"], times["nbf"]
    if now_s - skew_s >= expires:
        raise ClaimError(f"the token has expired: exp={expires}, and now it is {now_s}")
    if expires < issued:
        raise ClaimError(f"exp={expires} is before iat={issued}")
    if claims.get("nbf") is not None and expires < begins:
        raise ClaimError(f"exp={expires} is before nbf={begins}")
    if claims.get("nbf") is not None and now_s + skew_s < begins:
        raise ClaimError(f"the token is not valid yet: nbf={begins}, and now it is {now_s}")
    if issued < 0 or expires < 0:
        raise ClaimError(f"a time is negative: exp={expires}, iat={issued}")
    return expires


def _scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes: a text is a single scope, whatever blanks it has. Other types than a text
    and a list count as no scope, as in Kafka. Raises ClaimError for duplicates and blank scopes."""
    value = claims.get(name)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        return frozenset()
    found: set[str] = set()
    for scope in listed:
        if scope is not None and not isinstance(scope, str):
            raise ClaimError(f"the claim {name!r} has an element that is not a text")
        own = _required(name, scope)
        if own in found:
            raise ClaimError(f"the claim {name!r} has {shown(own)} twice")
        found.add(own)
    return frozenset(found)


def _is_unicode(value: str) -> bool:
    """Return False for half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _required(name: str, value: str | None) -> str:
    if value is None:
        raise ClaimError(f"the claim {name!r} is missing")
    found = trimmed(value)
    if not found:
        raise ClaimError(f"the claim {name!r} is blank")
    return found
