"""Exactly once holds over kill -9 of broker and clients, in short; `make torture` runs longer."""

from __future__ import annotations

from pathlib import Path

from tests.broker import Oncelog
from tests.torture.run import BROKER_SETTINGS, torture

KILLS = 10
SEED = 20_260_101


def test_nothing_is_doubled_lost_or_stuck_after_ten_kills(tmp_path: Path) -> None:
    """Every record fed is in the output once and in order; offsets and stable offsets agree."""
    said: list[str] = []
    with Oncelog(tmp_path / "oncelog", BROKER_SETTINGS) as broker:
        verdict = torture(broker, KILLS, SEED, tmp_path, said.append)
    assert verdict.is_clean, (verdict, said)
    assert verdict.records > 100
