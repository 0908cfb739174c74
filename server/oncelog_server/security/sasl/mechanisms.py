"""The exchange of each SASL mechanism that a broker can enable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from oncelog_protocol.security.login import RandomBytes
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)
from oncelog_server.security.sasl.exchange import SaslExchange
from oncelog_server.security.sasl.plain import PlainExchange, PlainUsers
from oncelog_server.security.sasl.scram import ScramExchange


class SaslSources(msgspec.Struct, frozen=True):
    """The credentials of a listener, and what else the exchanges need.

    `scram` returns the credential of a user. `random_bytes` returns secret random bytes.
    `server_secret` is the same in all brokers, and after a restart. `plain_users` are the users of
    PLAIN, None if the listener has none. `scram_iterations` returns the numbers of iterations in
    use. `oauthbearer(reauthentication)` returns a new exchange of OAUTHBEARER. It is None if tokens
    cannot be validated.
    """

    scram: Callable[[ScramMechanism, str], ScramCredential | None]
    random_bytes: RandomBytes
    server_secret: bytes
    plain_users: PlainUsers | None = None
    scram_iterations: Callable[[ScramMechanism], Collection[int]] = lambda _: (LEAST_ITERATIONS,)
    oauthbearer: Callable[[bool], SaslExchange] | None = None


def new_exchange(
    mechanism: SaslMechanism, sources: SaslSources, *, reauthentication: bool = False
) -> SaslExchange:
    """Return a new exchange. `reauthentication` is True if the connection was authenticated before
    (KIP-368). Raises ValueError if the listener lacks what the mechanism needs. A broker checks
    this when it starts."""
    return _EXCHANGES[mechanism](mechanism, sources, reauthentication)


def _plain(
    _mechanism: SaslMechanism, sources: SaslSources, _reauthentication: bool
) -> SaslExchange:
    if sources.plain_users is None:
        raise ValueError("SASL mechanism PLAIN has no users: plain.sasl.jaas.config is missing")
    return PlainExchange(sources.plain_users)


def _scram(mechanism: SaslMechanism, sources: SaslSources, reauthentication: bool) -> SaslExchange:
    scram = ScramMechanism[mechanism.name]
    return ScramExchange(
        scram,
        lambda name: sources.scram(scram, name),
        sources.random_bytes,
        sources.server_secret,
        lambda: sources.scram_iterations(scram),
        reauthentication=reauthentication,
    )


def _oauthbearer(
    _mechanism: SaslMechanism, sources: SaslSources, reauthentication: bool
) -> SaslExchange:
    if sources.oauthbearer is None:
        raise ValueError("SASL mechanism OAUTHBEARER has no validator of tokens")
    return sources.oauthbearer(reauthentication)


_EXCHANGES: Final[
    Mapping[SaslMechanism, Callable[[SaslMechanism, SaslSources, bool], SaslExchange]]
] = {
    SaslMechanism.PLAIN: _plain,
    SaslMechanism.SCRAM_SHA_256: _scram,
    SaslMechanism.SCRAM_SHA_512: _scram,
    SaslMechanism.OAUTHBEARER: _oauthbearer,
}
