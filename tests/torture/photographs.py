"""Copies of data directories at the broker kills of a torture run. Real clients then have open
transactions and groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.harness.broker import Oncelog
from tests.torture.run import BROKER_SETTINGS, torture

# Records of each round. Some faults are no kills, so several rounds may be necessary.
RECORDS = 1_500


class Photographed(Oncelog):
    """A broker that copies its data directory to `photographs` at each kill, at most `most`
    times."""

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
    """Return `count` directories. Each has a folder `data`, as `Oncelog` expects it."""
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
