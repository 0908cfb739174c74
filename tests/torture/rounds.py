"""One round on a broker of its own, which may lose its power."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.broker import Oncelog
from tests.torture.audit import Verdict
from tests.torture.power import PowerLoss
from tests.torture.run import BROKER_SETTINGS, torture

# Where a power loss is promised to lose nothing that was acknowledged.
SYNCED: Mapping[str, str] = {"oncelog.flush.on.ack": "true"}


@dataclass(frozen=True, slots=True)
class Round:
    """`loses_power` needs SYNCED among the settings."""

    directory: Path
    settings: Mapping[str, str]
    loses_power: bool
    seed: int

    def run(self, records: int, tell: Callable[[str], None]) -> Verdict:
        settings = {**BROKER_SETTINGS, **self.settings}
        if not self.loses_power:
            with Oncelog(self.directory / "oncelog", settings) as broker:
                return torture(broker, records, self.seed, self.directory, tell)
        journal = self.directory / "synced"
        environment = {"ONCELOG_SYNC_JOURNAL": str(journal)}
        broker = Oncelog(self.directory / "oncelog", settings, environment, ["--allow-faults"])
        power = PowerLoss(journal, broker.data, random.Random(self.seed))
        with broker:
            verdict = torture(broker, records, self.seed, self.directory, tell, power)
        tell(f"  {power.dropped:,} bytes that were not synced were lost")
        return verdict
