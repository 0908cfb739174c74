"""The broker's validator of bearer tokens, by its settings."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import structlog

from oncelog_server.deferred import Deferred, then
from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.oauth_settings import OAuthSettings, check, warnings
from oncelog_server.security.sasl.signed_tokens import UnknownKey, judge
from oncelog_server.security.sasl.unsecured_tokens import UnsecuredTokens
from oncelog_server.security.sasl.verification_keys import VerificationKeys
from oncelog_server.timers import Timers
from oncelog_server.tokens.endpoint import endpoint_of
from oncelog_server.tokens.key_source import KeySource

log = structlog.get_logger("oncelog.tokens")


class SignedTokens:
    """The `TokenValidator` with the keys of an issuer. A token with an unknown key waits until the
    keys have been fetched again. `monotonic_ms` measures the wait."""

    def __init__(
        self, source: KeySource, settings: OAuthSettings, monotonic_ms: Callable[[], int]
    ) -> None:
        self._source = source
        self._settings = settings
        self._monotonic_ms = monotonic_ms

    def validate(
        self, token: str, now_ms: int
    ) -> Claims | InvalidToken | Deferred[Claims | InvalidToken]:
        """Judge a token at the time `now_ms` (ms since the epoch)."""
        verdict = judge(token, self._source.keys, self._settings, now_ms)
        if not isinstance(verdict, UnknownKey):
            return verdict
        later = self._source.refetched()
        if later is None:
            return verdict.refused()
        begin_ms = self._monotonic_ms()

        def judge_again(keys: VerificationKeys) -> Claims | InvalidToken:
            # The token may expire during the wait.
            waited_ms = self._monotonic_ms() - begin_ms
            again = judge(token, keys, self._settings, now_ms + waited_ms)
            return again.refused() if isinstance(again, UnknownKey) else again

        return then(later, judge_again)

    async def close(self) -> None:
        await self._source.close()


class OAuthTokens:
    """The `TokenValidator` of a broker. Open it with `await OAuthTokens.open(…)`."""

    def __init__(self, validator: SignedTokens | UnsecuredTokens) -> None:
        self._validator = validator

    @classmethod
    async def open(
        cls,
        settings: OAuthSettings,
        timers: Timers,
        monotonic_ms: Callable[[], int],
        context: ssl.SSLContext | None = None,
    ) -> OAuthTokens:
        """Fetch the keys and return the validator. `context` has the certificates that https
        trusts, the system's by default.

        Raises OAuthSettingsError for settings that are unsafe, JwksUnavailable without keys, and
        SecurityExtraMissing without joserfc. The warnings of the settings are logged.
        """
        check(settings)
        for warning in warnings(settings):
            log.warning(warning)
        if settings.jwks_endpoint_url is None or settings.unsecured:
            return cls(UnsecuredTokens(settings.unsecured_options))
        endpoint = endpoint_of(settings.jwks_endpoint_url.strip(), context)
        source = KeySource(endpoint, settings, timers, monotonic_ms)
        await source.start()
        return cls(SignedTokens(source, settings, monotonic_ms))

    def validate(
        self, token: str, now_ms: int
    ) -> Claims | InvalidToken | Deferred[Claims | InvalidToken]:
        """Judge a token at the time `now_ms` (ms since the epoch)."""
        return self._validator.validate(token, now_ms)

    async def close(self) -> None:
        """End the refresh of the keys."""
        if isinstance(self._validator, SignedTokens):
            await self._validator.close()
