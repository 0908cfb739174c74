"""`Settings`, all honored settings with their types, and the names of all known settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.broker import BrokerSettings
from oncelog_server.settings.cleaner import CleanerSettings
from oncelog_server.settings.coordinators import CoordinatorSettings
from oncelog_server.settings.log import LogSettings
from oncelog_server.settings.quotas import QuotaSettings
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.security import SecuritySettings
from oncelog_server.settings.table import Setting, setting_of


@dataclass(frozen=True)
class Settings(
    BrokerSettings,
    LogSettings,
    CleanerSettings,
    CoordinatorSettings,
    SecuritySettings,
    QuotaSettings,
):
    """Every honored setting as an attribute: `num.partitions` is `num_partitions`.

    `given` holds the texts of the settings that were set, by name. It includes the settings of
    ACCEPTED, which have no effect.
    """

    given: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def data_directory(self) -> str:
        """Return the data directory: log.dirs, or else log.dir."""
        return (self.log_dirs or self.log_dir)[0]


HONOURED: dict[str, Setting] = {
    row.name: row
    for row in (setting_of(column) for column in fields(Settings) if "row" in column.metadata)
}
KNOWN = frozenset(HONOURED) | frozenset(ACCEPTED) | frozenset(REFUSED)
