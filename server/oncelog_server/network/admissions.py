"""Makes the admission of each listener from the settings and the files that they name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import ScramCredential, ScramMechanism
from oncelog_server.clock import Clock
from oncelog_server.network.secured_admission import SecuredAdmission
from oncelog_server.requests.authentication import SaslRules
from oncelog_server.security.audit import GroupedEvents
from oncelog_server.security.sasl.exchange import SaslExchange
from oncelog_server.security.sasl.mechanisms import SaslSources, new_exchange
from oncelog_server.security.sasl.oauthbearer import OAuthBearerExchange
from oncelog_server.security.sasl.plain import PlainUsers
from oncelog_server.settings.listener_security import (
    enabled_mechanisms,
    name_as_set,
    oauth_settings,
    tls_settings,
    users_of_plain,
)
from oncelog_server.settings.listeners import ListenerAddress
from oncelog_server.settings.model import Settings
from oncelog_server.timers import Timer, Timers

if TYPE_CHECKING:
    from oncelog_server.network.listener_tls import ListenerTls
    from oncelog_server.tokens.oauth_tokens import OAuthTokens

# Time between two checks of the files of certificates.
FILES_MS: Final = 60_000
# Maximum number of reasons of one kind, such as wrong passwords of different users, that have
# events of their own for an address in a minute.
MOST_REASONS: Final = 20

log = structlog.get_logger("oncelog.network")


class Admissions:
    """The admissions of one broker. `scram` returns the credential of a user, `scram_iterations`
    the numbers of iterations in use, `random_bytes` secret random bytes. `server_secret` is the
    same after a restart."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        timers: Timers,
        *,
        scram: Callable[[ScramMechanism, str], ScramCredential | None],
        scram_iterations: Callable[[ScramMechanism], Collection[int]],
        random_bytes: Callable[[int], bytes],
        server_secret: bytes,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._scram = scram
        self._scram_iterations = scram_iterations
        self._random_bytes = random_bytes
        self._server_secret = server_secret
        self._tokens: list[OAuthTokens] = []
        self._tls: list[ListenerTls] = []
        self._timer: Timer | None = None
        self._failures = GroupedEvents(
            partial(log.warning, "authentication failed"),
            clock.monotonic_ms,
            most_variants=MOST_REASONS,
        )

    async def open(self, listener: ListenerAddress) -> SecuredAdmission:
        """Return the admission of a listener with TLS or SASL. Raises ValueError, which names the
        setting, if its certificates or keys cannot be used."""
        tls = self._open_tls(listener) if listener.protocol.has_tls else None
        sasl = await self._open_sasl(listener) if listener.protocol.has_sasl else None
        own = self._settings.of_listener(listener.name)
        return SecuredAdmission(
            listener.name,
            listener.protocol,
            self._failures,
            new_engine=None if tls is None else tls.new_engine,
            expiry_ms=None if tls is None else tls.expiry_ms,
            check_certificate=None if tls is None else tls.check_certificate,
            of_certificate=None if tls is None else tls.principal_of,
            sasl=sasl,
            max_unauthenticated_bytes=min(
                own.sasl_server_max_receive_size, own.socket_request_max_bytes
            ),
        )

    def _open_tls(self, listener: ListenerAddress) -> ListenerTls:
        from oncelog_server.network.listener_tls import ListenerTls

        own = self._settings.of_listener(listener.name)
        tls = ListenerTls(
            listener.name,
            tls_settings(self._settings, listener),
            own.ssl_principal_mapping_rules,
            self._clock.now_ms,
            allow_dn_changes=own.ssl_allow_dn_changes,
            allow_san_changes=own.ssl_allow_san_changes,
            name_as_set=partial(name_as_set, self._settings, listener),
        )
        if not self._tls:
            self._look_at_files()
        self._tls.append(tls)
        return tls

    def _look_at_files(self) -> None:
        """Look for changed certificates now and every minute."""
        for tls in self._tls:
            tls.reload_if_changed()
        self._timer = self._timers.call_later(FILES_MS, self._look_at_files)

    async def _open_sasl(self, listener: ListenerAddress) -> SaslRules:
        settings = self._settings
        mechanisms = enabled_mechanisms(settings, listener)
        plain_users = None
        if SaslMechanism.PLAIN in mechanisms:
            plain_users = PlainUsers(users_of_plain(settings, listener), self._server_secret)
        oauthbearer = None
        if SaslMechanism.OAUTHBEARER in mechanisms:
            oauthbearer = await self._open_tokens(listener)
        sources = SaslSources(
            self._scram,
            self._random_bytes,
            self._server_secret,
            plain_users,
            self._scram_iterations,
            oauthbearer,
        )
        own = settings.of_listener(listener.name)
        limits = {
            mechanism: settings.of_listener(listener.name, mechanism).connections_max_reauth_ms
            for mechanism in mechanisms
        }
        return SaslRules(
            exchanges={
                mechanism: partial(_new_exchange, mechanism, sources) for mechanism in mechanisms
            },
            max_reauth_ms={mechanism: ms for mechanism, ms in limits.items() if ms > 0},
            failure_delay_ms=own.connection_failed_authentication_delay_ms,
            wall_ms=self._clock.now_ms,
            monotonic_ms=self._clock.monotonic_ms,
            timers=self._timers,
        )

    async def _open_tokens(self, listener: ListenerAddress) -> Callable[[bool], SaslExchange]:
        from oncelog_server.tokens.oauth_tokens import OAuthTokens

        tokens = await OAuthTokens.open(
            oauth_settings(self._settings, listener), self._timers, self._clock.monotonic_ms
        )
        self._tokens.append(tokens)
        return lambda again: OAuthBearerExchange(tokens, self._clock.now_ms, again=again)

    @property
    def has_tls(self) -> bool:
        return bool(self._tls)

    def reload(self) -> None:
        """Read the certificates of all listeners again. If the new certificate and key cannot be
        used, or are another broker's, the old ones stay in place, and an event says why."""
        for tls in self._tls:
            tls.reload()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for tokens in self._tokens:
            await tokens.close()
        self._failures.flush()


def _new_exchange(mechanism: SaslMechanism, sources: SaslSources, again: bool) -> SaslExchange:
    return new_exchange(mechanism, sources, reauthentication=again)
