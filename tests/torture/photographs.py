"""Copies of the data directory, one for each time that a torture run kills the broker. At a kill,
real clients have open transactions and groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.harness.broker import Oncelog
from tests.torture.run import BROKER_SETTINGS, torture

# Number of records in a torture run. Not every fault is a kill, so one run may yield too few copies
# and another run follows.
RECORDS = 1_500


class Photographed(Oncelog):
    """A broker that copies its data directory after each kill, at most `most` times. `photographs`
    lists the copies."""

    most = 0

    @property
    def photographs(self) -> list[Path]:
        places = map(self._photograph, range(self.most))
        return [place for place in places if place.exists()]

    def kill(self) -> None:
        was_running = self._process is not None
        super().kill()
        taken = len(self.photographs)
        if was_running and taken < self.most:
            shutil.copytree(self.data, self._photograph(taken) / "data")

    def _photograph(self, number: int) -> Path:
        return self.directory / f"photograph-{number}"


def photographs(directory: Path, count: int, seed: int, tell: Callable[[str], None]) -> list[Path]:
    """Return `count` directories. Each has a copy in the folder `data`, where `Oncelog` expects its
    data directory."""
    found: list[Path] = []
    while len(found) < count:
        place = directory / f"round-{seed}"
        broker = Photographed(place, BROKER_SETTINGS)
        broker.most = count - len(found)
        with broker:
            verdict = torture(broker, RECORDS, seed, place, tell, faults_wanted=count - len(found))
            assert verdict.is_clean, verdict
        found += broker.photographs
        seed += 1
    return found
