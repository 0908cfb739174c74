"""A bearer token of the client, and when it is replaced (Kafka's ClientJwtValidator and
ExpiringCredentialRefreshingLogin)."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any, Final, NamedTuple

from oncelog_protocol.secret import Secret

# A later time cannot be a time in seconds. An application that means ms gets an error.
_MOST_SECONDS: Final = 10**11
_MS: Final = 1000


class OAuthTokenError(Exception):
    """There is no token. The message contains neither the token nor the client's secret.
    `is_retriable` is False if the same request would fail again."""

    def __init__(self, message: str, *, is_retriable: bool = False) -> None:
        super().__init__(message)
        self.is_retriable = is_retriable


class AccessToken(NamedTuple):
    """A token with its times, in ms since the epoch. A time is None if it is unknown."""

    token: Secret
    expires_ms: int | None = None
    issued_ms: int | None = None

    def has_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and now_ms >= self.expires_ms


class RefreshWindow(NamedTuple):
    """The settings for the refresh of a token: Kafka's `sasl.login.refresh.*` by their names."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_seconds: int = 60
    buffer_seconds: int = 300

    def refresh_ms(self, token: AccessToken, now_ms: int, randomness: float) -> int | None:
        """Return the time after which the token is replaced, or None if it does not expire.

        `randomness` in 0..1 chooses a time between `window_factor` and `window_factor +
        window_jitter` of the lifetime. The time is at least `buffer_seconds` before the end, and at
        least `min_period_seconds` after `now_ms`, unless the token ends too soon for these two
        limits.
        """
        expires_ms = token.expires_ms
        if expires_ms is None:
            return None
        part = self.window_factor + self.window_jitter * randomness
        room_ms = (self.min_period_seconds + self.buffer_seconds) * _MS
        if now_ms + room_ms > expires_ms:
            return now_ms + int((expires_ms - now_ms) * part)
        begin_ms = now_ms if token.issued_ms is None else token.issued_ms
        wanted_ms = begin_ms + int((expires_ms - begin_ms) * part)
        latest_ms = expires_ms - self.buffer_seconds * _MS
        return min(latest_ms, max(wanted_ms, now_ms + self.min_period_seconds * _MS))


def access_token(text: str, expires_ms: int | None = None) -> AccessToken:
    """Return a token with its times. Without `expires_ms`, a JWT expires as its claims say, and the
    expiry of any other token is unknown. Raises OAuthTokenError if the text is empty."""
    stripped = text.strip()
    if not stripped:
        raise OAuthTokenError("the OAuth token is empty")
    claims = _claims(stripped)
    own_ms = _time_ms(claims.get("exp"))
    return AccessToken(
        Secret(stripped), own_ms if expires_ms is None else expires_ms, _time_ms(claims.get("iat"))
    )


def token_of_callback(value: object) -> AccessToken:
    """Return the token that a callback of the application gave: a text, or a pair of the text and
    its time of expiry (seconds since the epoch). Raises OAuthTokenError for other values."""
    match value:
        case str(text):
            return access_token(text)
        case Secret() as secret:
            return access_token(secret.reveal())
        case (str() | Secret() as first, int() | float() as expires) if not isinstance(
            expires, bool
        ):
            if not 0 <= expires < _MOST_SECONDS:
                raise OAuthTokenError(
                    f"the OAuth callback returned the expiry {expires}: it must be in seconds since"
                    " the epoch"
                )
            text = first.reveal() if isinstance(first, Secret) else first
            return access_token(text, int(expires * _MS))
    raise OAuthTokenError(
        f"the OAuth callback returned a value of type {type(value).__name__}: return the token as"
        " text, or a pair of the text and its expiry (seconds since the epoch)"
    )


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT without a check of its signature, or nothing for other tokens. The
    client needs only the times; the broker verifies the token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        value = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _time_ms(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value * _MS) if 0 <= value < _MOST_SECONDS else None
