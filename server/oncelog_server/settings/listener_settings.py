"""Settings of a single listener: `listener.name.<listener>.<setting>`, and those of one mechanism
of a listener: `listener.name.<listener>.<mechanism>.<setting>` (KIP-103, KIP-292).

Listeners and mechanisms are in lower case in these names, as in Kafka.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Final

import msgspec

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.settings.broker import BrokerSettings
from oncelog_server.settings.sasl import SaslSettings
from oncelog_server.settings.table import Kind, Setting, setting_of
from oncelog_server.settings.tls import TlsSettings

PREFIX: Final = "listener.name."
JAAS: Final = Setting(
    "sasl.jaas.config",
    Kind.PASSWORD,
    None,
    "The login module of the mechanism in the form of JAAS. For PLAIN, its options "
    '`user_<name>="<password>"` are the users.',
)

_MECHANISMS: Final = {mechanism.value.lower(): mechanism for mechanism in SaslMechanism}
MAX_CONNECTIONS: Final = "max.connections"
# Kafka can change these for a listener while the broker runs (SocketServer's
# ListenerConnectionQuota).
LIMITS: Final = (MAX_CONNECTIONS, "max.connection.creation.rate")
_OF_MECHANISMS: Final = frozenset(
    {"connections.max.reauth.ms", "sasl.server.callback.handler.class"}
)


# The tables are made at the first use, because most starts need none.
@cache
def _rows(of_mechanism: bool) -> dict[str, Setting]:
    """Return the rows that can be set for a listener, or for a mechanism of a listener."""
    sasl = [setting_of(column) for column in fields(SaslSettings)]
    if of_mechanism:
        return {
            row.name: row
            for row in (JAAS, *sasl)
            if row.name in (JAAS.name, *_OF_MECHANISMS) or row.name.startswith("sasl.oauthbearer.")
        }
    broker = [setting_of(column) for column in fields(BrokerSettings)]
    tls = [setting_of(column) for column in fields(TlsSettings)]
    of_broker = [row for row in broker if row.name in LIMITS]
    return {row.name: row for row in (*of_broker, *sasl, *tls)}


class ListenerSetting(msgspec.Struct, frozen=True):
    """The name of a setting of one listener. `listener` is in upper case. `mechanism` is None if
    the setting is not of one mechanism. `name` is the setting's own name, without a prefix."""

    listener: str
    mechanism: SaslMechanism | None
    name: str

    @property
    def full_name(self) -> str:
        """Return the name as it is written."""
        parts = [self.listener.lower(), self.name]
        if self.mechanism is not None:
            parts.insert(1, self.mechanism.lower())
        return PREFIX + ".".join(parts)

    @property
    def row(self) -> Setting | None:
        """Return the setting, None if it cannot be set for a single listener or mechanism."""
        return _rows(self.mechanism is not None).get(self.name)


def listener_setting(name: str) -> ListenerSetting | None:
    """Return the parts of a name, None without the prefix."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    first, _, setting = rest.partition(".")
    mechanism = _MECHANISMS.get(first)
    return ListenerSetting(listener.upper(), mechanism, rest if mechanism is None else setting)
