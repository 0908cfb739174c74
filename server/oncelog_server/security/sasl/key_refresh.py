"""The times at which an issuer's keys are fetched (settings `sasl.oauthbearer.jwks.endpoint.*`)."""

from __future__ import annotations

from oncelog_server.security.sasl.oauth_settings import OAuthSettings

# More doublings exceed every `jwks.endpoint.retry.backoff.max.ms`.
_MOST_DOUBLINGS = 30


class KeyRefresh:
    """The times of the fetches, in ms of a monotonic clock.

    `due_ms` is the next fetch without a cause: one refresh interval after a success, a back-off
    after a failure. A token with an unknown key is a cause to fetch earlier, but not before a
    back-off has passed. The back-off doubles with each fetch in a row that brings no new key, so
    that tokens with invented ids do not make the broker flood the issuer.
    """

    def __init__(self, settings: OAuthSettings) -> None:
        self._refresh_ms = settings.jwks_endpoint_refresh_ms
        self._backoff_ms = settings.jwks_endpoint_retry_backoff_ms
        self._most_backoff_ms = settings.jwks_endpoint_retry_backoff_max_ms
        self._failures = 0
        self._without_news = 0
        self._last_ms: int | None = None
        self._may_fetch_ms = 0
        self.due_ms = 0

    def may_fetch(self, now_ms: int) -> bool:
        """Return True if an unknown key may cause a fetch."""
        return now_ms >= self._may_fetch_ms

    def fetched(self, now_ms: int, *, has_new_key: bool) -> None:
        """Record a successful fetch."""
        self._failures = 0
        self._record(now_ms, has_news=has_new_key)
        self.due_ms = now_ms + self._refresh_ms

    def failed(self, now_ms: int) -> None:
        """Record a failed fetch."""
        self._failures += 1
        self._record(now_ms, has_news=False)
        self.due_ms = now_ms + min(self._refresh_ms, self._delay_ms(self._failures))

    def _record(self, now_ms: int, *, has_news: bool) -> None:
        quiet = self._last_ms is None or now_ms - self._last_ms > 2 * self._most_backoff_ms
        self._without_news = 0 if has_news or quiet else self._without_news + 1
        self._last_ms = now_ms
        self._may_fetch_ms = now_ms + self._delay_ms(self._without_news + 1)

    def _delay_ms(self, attempts: int) -> int:
        """Return the back-off after a number of attempts in a row, at least 1."""
        doublings = min(attempts - 1, _MOST_DOUBLINGS)
        # A back-off of 0 would let the broker retry in a closed loop.
        return max(1, min(self._backoff_ms << doublings, self._most_backoff_ms))
