"""Settings of a single listener: `listener.name.<listener>.<setting>`, and those of one mechanism
of a listener: `listener.name.<listener>.<mechanism>.<setting>` (KIP-103, KIP-292).

Listeners and mechanisms are in lower case in these names, as in Kafka.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final, NamedTuple

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
_SASL: Final = {row.name: row for row in (setting_of(column) for column in fields(SaslSettings))}
_MAX_CONNECTIONS: Final = {
    row.name: row
    for row in (setting_of(column) for column in fields(BrokerSettings))
    if row.name == "max.connections"
}
_OF_LISTENERS: Final = (
    _SASL
    | _MAX_CONNECTIONS
    | {row.name: row for row in (setting_of(column) for column in fields(TlsSettings))}
)
_OF_MECHANISMS: Final = {
    name: row
    for name, row in _SASL.items()
    if name.startswith("sasl.oauthbearer.")
    or name in ("connections.max.reauth.ms", "sasl.server.callback.handler.class")
} | {JAAS.name: JAAS}


class ListenerSetting(NamedTuple):
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
        rows = _OF_LISTENERS if self.mechanism is None else _OF_MECHANISMS
        return rows.get(self.name)


def listener_setting(name: str) -> ListenerSetting | None:
    """Return the parts of a name, None if it has not the prefix."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    first, _, setting = rest.partition(".")
    mechanism = _MECHANISMS.get(first)
    return ListenerSetting(listener.upper(), mechanism, rest if mechanism is None else setting)
