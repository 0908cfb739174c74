"""One round of a torture run, with its own broker, and with or without power losses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.harness.broker import Oncelog
from tests.torture.audit import Verdict
from tests.torture.photographs import Photographed
from tests.torture.power import PowerLoss
from tests.torture.run import BROKER_SETTINGS, torture

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

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings)
        self.journal = directory / "journal"
        self.shadow = directory / "shadow"

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        traced = [str(self.journal), str(self.shadow), str(self.data)]
        return [python, "-m", "tests.torture.traced", *traced, *rest]


@dataclass(frozen=True, slots=True)
class Round:
    """The settings of a round. `loses_power` requires SYNCED among the settings."""

    directory: Path
    settings: Mapping[str, str]
    loses_power: bool
    seed: int
    # Minimum number of faults. Every kind occurs at least once.
    faults: int = 0
    # A round without power losses copies the data directory when it kills the broker, at most this
    # many times.
    photographs: int = 0

    def run(self, records: int, tell: Callable[[str], None]) -> Verdict:
        settings = {**BROKER_SETTINGS, **self.settings}
        if not self.loses_power:
            with Photographed(self.directory / "oncelog", settings, self.photographs) as killed:
                return torture(
                    killed, records, self.seed, self.directory, tell, faults_wanted=self.faults
                )
        broker = Traced(self.directory / "oncelog", settings)
        randomness = random.Random(self.seed)
        power = PowerLoss(broker.journal, broker.shadow, broker.data, randomness)
        with broker:
            verdict = torture(broker, records, self.seed, self.directory, tell, power, self.faults)
        tell(
            f"  {power.dropped:,} bytes and {power.names:,} changes of names that were not synced "
            f"were lost"
        )
        verdict.dropped, verdict.forgotten = power.dropped, power.names
        return verdict
