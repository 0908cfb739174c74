"""The keys of an issuer, kept up to date in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from oncelog_server.deferred import Deferred
from oncelog_server.security.sasl.key_refresh import KeyRefresh
from oncelog_server.security.sasl.oauth_settings import JWKS_URL, OAuthSettings
from oncelog_server.security.sasl.verification_keys import (
    JwksError,
    VerificationKeys,
    import_joserfc,
    read_jwks,
)
from oncelog_server.timers import Timer, Timers
from oncelog_server.tokens.endpoint import FETCH_S, FileEndpoint, JwksEndpoint, JwksUnavailable

log = structlog.get_logger("oncelog.tokens")

# Kafka checks the modification time of a JWKS file for every token. A file is cheap to read, and a
# key that is removed from it must not stay valid for the whole refresh interval.
FILE_REFRESH_MS: Final = 10_000


class KeySource:
    """The keys of the last successful fetch. They stay in use while the endpoint cannot be reached.

    `now_ms` is a monotonic clock. All methods belong to the thread of the event loop.
    """

    def __init__(
        self,
        endpoint: JwksEndpoint,
        settings: OAuthSettings,
        timers: Timers,
        now_ms: Callable[[], int],
    ) -> None:
        self._endpoint = endpoint
        self._timers = timers
        self._now_ms = now_ms
        self._refresh = KeyRefresh(settings)
        self._executor = ThreadPoolExecutor(1, "oncelog-jwks")
        self._keys: VerificationKeys | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._waiting: set[Deferred[VerificationKeys]] = set()
        self._timer: Timer | None = None
        self._is_failing = False
        self._closed = False

    @property
    def keys(self) -> VerificationKeys:
        """Return the keys. Raises LookupError before `start`."""
        if self._keys is None:
            raise LookupError("no keys yet")
        return self._keys

    async def start(self) -> None:
        """Fetch the keys for the first time. Raises JwksUnavailable, which names the setting, and
        SecurityExtraMissing without joserfc."""
        import_joserfc()
        try:
            keys = await self._fetch()
        except (JwksError, JwksUnavailable) as error:
            self._executor.shutdown(wait=False)
            raise JwksUnavailable(
                f"OAUTHBEARER has no keys: {JWKS_URL}={self._endpoint.url}: {error}"
            ) from error
        self._adopt(keys)

    def refetched(self) -> Deferred[VerificationKeys] | None:
        """Return the keys of the fetch in progress, or of a new fetch. If the fetch fails, the
        result has the old keys. Return None if the last fetch is too recent for a new fetch."""
        if self._fetching is None:
            if self._closed or not self._refresh.may_fetch(self._now_ms()):
                return None
            self._begin()
        later: Deferred[VerificationKeys] = Deferred()
        self._waiting.add(later)
        later.on_cancel(lambda: self._waiting.discard(later))
        return later

    async def close(self) -> None:
        """End the refresh. Pending results get the old keys."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})
        self._executor.shutdown(wait=False)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fetching = asyncio.get_running_loop().create_task(self._refetch())

    async def _refetch(self) -> None:
        try:
            keys = await self._fetch()
        except Exception as error:
            # The next refresh must follow, even if a defect has caused the error.
            self._failed(str(error) or type(error).__name__)
        else:
            self._adopt(keys)
        finally:
            self._fetching = None
            waiting, self._waiting = self._waiting, set()
            for later in waiting:
                later.complete(self.keys)

    async def _fetch(self) -> VerificationKeys:
        """Return the keys of the endpoint. Raises JwksUnavailable and JwksError."""
        work = asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: read_jwks(self._endpoint.fetch())
        )
        try:
            # A look-up of the host's address has no timeout of its own.
            async with asyncio.timeout(FETCH_S + 1):
                return await work
        except TimeoutError:
            raise JwksUnavailable(f"no response within {FETCH_S + 1:g} s") from None

    def _adopt(self, keys: VerificationKeys) -> None:
        known = set() if self._keys is None else set(self._keys.kids)
        has_new_key = bool(set(keys.kids) - known)
        if self._is_failing or has_new_key:
            log.info("token keys fetched", url=self._endpoint.url, key_ids=keys.kids[:20])
        self._is_failing = False
        self._keys = keys
        self._refresh.fetched(self._now_ms(), has_new_key=has_new_key)
        self._set_timer()

    def _failed(self, reason: str) -> None:
        if not self._is_failing:
            # Retries follow every few seconds, so only the first failure is logged.
            log.warning(
                "token keys not fetched, the old keys stay in use",
                url=self._endpoint.url,
                reason=reason,
            )
        self._is_failing = True
        self._refresh.failed(self._now_ms())
        self._set_timer()

    def _set_timer(self) -> None:
        if self._closed:
            return
        delay_ms = self._refresh.due_ms - self._now_ms()
        if isinstance(self._endpoint, FileEndpoint):
            delay_ms = min(delay_ms, FILE_REFRESH_MS)
        self._timer = self._timers.call_later(delay_ms, self._begin)
