"""Data directories out of the torture: as each kill of the broker left them, under the load of real
clients, with transactions and groups under way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.harness.broker import Oncelog
from tests.torture.run import BROKER_SETTINGS, torture

# Of each round; more faults follow than kills are wanted, as not every fault is one.
RECORDS = 1_500


class Photographed(Oncelog):
    """Whenever it is killed its data directory is copied to `photographs`, up to `most`."""

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
    """Return `count` directories that have one `data` each, as an `Oncelog` wants it."""
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
