"""`Settings`, all honored settings with their types, and the names of all known settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import TYPE_CHECKING, Any

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.broker import BrokerSettings
from oncelog_server.settings.cleaner import CleanerSettings
from oncelog_server.settings.coordinators import CoordinatorSettings
from oncelog_server.settings.etcd import EtcdSettings
from oncelog_server.settings.listener_settings import JAAS, MAX_CONNECTIONS, ListenerSetting
from oncelog_server.settings.log import LogSettings
from oncelog_server.settings.membership import MembershipSettings
from oncelog_server.settings.quotas import QuotaSettings
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.sasl import SaslSettings
from oncelog_server.settings.security import SecuritySettings
from oncelog_server.settings.table import Setting, SettingValue, setting_of
from oncelog_server.settings.tls import TlsSettings

if TYPE_CHECKING:
    from oncelog_server.settings.login_file import LoginFile


class Settings(
    BrokerSettings,
    LogSettings,
    CleanerSettings,
    CoordinatorSettings,
    SecuritySettings,
    TlsSettings,
    SaslSettings,
    QuotaSettings,
    EtcdSettings,
    MembershipSettings,
):
    """Every honored setting as an attribute: `num.partitions` is `num_partitions`.

    `given` holds the texts of the settings that were set, by name. It includes the settings of
    ACCEPTED, which have no effect. Passwords are hidden in it. `of_listeners` holds the settings
    that single listeners have. `login_file` is the JAAS file of the broker, if there is one.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    # The dynamic settings in force, as text by name: of this broker, and of all brokers.
    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_defaults: Mapping[str, str] = field(default_factory=dict)
    # The settings of the start, if dynamic settings may override them.
    at_start: Settings | None = None
    of_listeners: Mapping[ListenerSetting, SettingValue] = field(default_factory=dict)
    login_file: LoginFile | None = None
    # The number of this broker among several on this machine, from 1 on, and the data directory of
    # the first broker, None for the first broker itself (`settings/machine.py`).
    member: int = 1
    first_broker: str | None = None

    @property
    def has_other_brokers(self) -> bool:
        """Return True if the cluster may have other brokers."""
        return bool(self.oncelog_etcd_endpoints) or self.oncelog_brokers > 1

    @property
    def has_metadata_elsewhere(self) -> bool:
        """Return True if the metadata is not in the data directory."""
        return bool(self.oncelog_etcd_endpoints) or self.first_broker is not None

    def running(self) -> Settings:
        """Return a copy for the parts of a running broker. `follow` changes the copy. `at_start` of
        the copy has these settings."""
        return replace(self, at_start=self)

    def follow(self, changed: Settings) -> None:
        """Take all values of other settings. Only the result of `running` may change."""
        if self.at_start is None:
            raise FrozenInstanceError("only the settings of a running broker can change")
        vars(self).update(vars(changed))

    @property
    def data_directory(self) -> str:
        """Return the data directory: log.dirs, or else log.dir."""
        return (self.log_dirs or self.log_dir)[0]

    def of_listener(self, listener: str, mechanism: SaslMechanism | None = None) -> Settings:
        """Return the settings in force for a listener, or for one of its SASL mechanisms."""
        own: dict[str, Any] = {
            setting.name.replace(".", "_"): value
            for layer in (None, mechanism)
            for setting, value in self.of_listeners.items()
            if setting.listener == listener
            and setting.mechanism is layer
            and setting.name in HONOURED
        }
        return replace(self, **own) if own else self

    @property
    def max_connections_of_listeners(self) -> dict[str, int]:
        """Return the limits of connections that listeners have themselves."""
        return {
            setting.listener: value
            for setting, value in self.of_listeners.items()
            if setting.name == MAX_CONNECTIONS and isinstance(value, int)
        }

    def jaas_of(self, listener: str, mechanism: SaslMechanism) -> Secret | None:
        """Return the JAAS configuration of a mechanism of a listener, None if it is not set."""
        value = self.of_listeners.get(ListenerSetting(listener, mechanism, JAAS.name))
        return value if isinstance(value, Secret) else None


HONOURED: dict[str, Setting] = {
    row.name: row
    for row in (setting_of(column) for column in fields(Settings) if "row" in column.metadata)
}
KNOWN = frozenset(HONOURED) | frozenset(ACCEPTED) | frozenset(REFUSED)
