"""Copies of the data directory, one for each time that a torture run kills the broker. At a kill,
real clients have open transactions and groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.harness.broker import Oncelog
from tests.torture.run import BROKER_SETTINGS, torture

# Number of records in a torture run. Not every fault is a kill, so one run may yield too few copies
# and another run follows.
RECORDS = 1_500


class Photographed(Oncelog):
    """A broker that copies its data directory after each kill, at most `most` times. `photographs`
    lists the copies."""

    def __init__(self, directory: Path, settings: Mapping[str, str], most: int) -> None:
        super().__init__(directory, settings)
        self.photographs: list[Path] = []
        self._most = most

    def kill(self) -> None:
        was_running = self._process is not None
        super().kill()
        if was_running and len(self.photographs) < self._most:
            place = self.directory / f"photograph-{len(self.photographs)}" / "data"
            shutil.copytree(self.data, place)
            self.photographs.append(place.parent)


def photographs(directory: Path, count: int, seed: int, tell: Callable[[str], None]) -> list[Path]:
    """Return `count` directories. Each has a copy in the folder `data`, where `Oncelog` expects its
    data directory."""
    found: list[Path] = []
    while len(found) < count:
        place = directory / f"round-{seed}"
        broker = Photographed(place, BROKER_SETTINGS, count - len(found))
        with broker:
            verdict = torture(broker, RECORDS, seed, place, tell, faults_wanted=count - len(found))
            assert verdict.is_clean, verdict
        found += broker.photographs
        seed += 1
    return found
