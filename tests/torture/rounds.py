"""One round of a torture run, with its own broker, and with or without power losses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.harness.broker import Oncelog
from tests.harness.certificates import Certificates
from tests.security.secured_broker import SecuredOncelog
from tests.torture.access import Access, PlainAccess
from tests.torture.audit import Verdict
from tests.torture.photographs import Photographed
from tests.torture.power import PowerLoss
from tests.torture.run import BROKER_SETTINGS, torture
from tests.torture.secured_access import SECURED, SecuredAccess

# With these settings a power loss must not lose acknowledged records. Segments are closed and
# compacted all the time, so there are always unsynced file names.
SYNCED: Mapping[str, str] = {
    "oncelog.flush.on.ack": "true",
    "log.roll.ms": "4000",
    "log.cleaner.backoff.ms": "5000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
}


class Traced(Oncelog):
    """A broker that writes the changes of its files to `journal` and keeps replaced and unlinked
    files in `shadow`."""

    @property
    def journal(self) -> Path:
        return self.directory / "journal"

    @property
    def shadow(self) -> Path:
        return self.directory / "shadow"

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        traced = [str(self.journal), str(self.shadow), str(self.data)]
        return [python, "-m", "tests.torture.traced", *traced, *rest]


class SecuredPhotographed(SecuredOncelog, Photographed):
    """Has the settings of `SecuredOncelog`, but with Kafka's defaults in place of short waits."""

    waits = MappingProxyType({})


class SecuredTraced(SecuredOncelog, Traced):
    """A `Traced` broker with the settings of `SecuredPhotographed`."""

    waits = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Round:
    """The settings of a round. `loses_power` requires SYNCED among the settings. With
    `certificates`, clients connect by SASL_SSL, each with exactly the rights that it needs."""

    directory: Path
    settings: Mapping[str, str]
    loses_power: bool
    seed: int
    # Minimum number of faults. Every kind occurs at least once.
    faults: int = 0
    # A round without power losses copies the data directory when it kills the broker, at most this
    # many times.
    photographs: int = 0
    certificates: Certificates | None = None

    def run(self, records: int, tell: Callable[[str], None]) -> Verdict:
        broker = self._traced() if self.loses_power else self._photographed()
        power = None
        if isinstance(broker, Traced):
            randomness = random.Random(self.seed)
            power = PowerLoss(broker.journal, broker.shadow, broker.data, randomness)
        with broker:
            access = self._access(broker)
            verdict = torture(
                broker, records, self.seed, self.directory, tell, power, self.faults, access
            )
        if power is not None:
            tell(
                f"  {power.dropped:,} bytes and {power.names:,} changes of names that were not "
                f"synced were lost"
            )
            verdict.dropped, verdict.forgotten = power.dropped, power.names
        return verdict

    def _photographed(self) -> Photographed:
        place, settings = self.directory / "oncelog", {**BROKER_SETTINGS, **self.settings}
        broker = (
            Photographed(place, settings)
            if self.certificates is None
            else SecuredPhotographed(place, self.certificates, {**SECURED, **settings})
        )
        broker.most = self.photographs
        return broker

    def _traced(self) -> Traced:
        place, settings = self.directory / "oncelog", {**BROKER_SETTINGS, **self.settings}
        if self.certificates is None:
            return Traced(place, settings)
        return SecuredTraced(place, self.certificates, {**SECURED, **settings})

    def _access(self, broker: Oncelog) -> Access:
        """Return the access to a running broker, with users and rights if it has an authorizer."""
        if not isinstance(broker, SecuredOncelog):
            return PlainAccess(broker.address)
        assert self.certificates is not None
        access = SecuredAccess(broker, self.certificates)
        access.create_users()
        access.grant()
        return access
