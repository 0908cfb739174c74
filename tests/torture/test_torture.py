"""Exactly once holds over faults of broker and clients, in short; `make torture` runs longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.power import durable_sizes
from tests.torture.rounds import SYNCED, Round

RECORDS = 4_000
SEED = 20_260_101


@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "without-power"])
def test_g1_nothing_is_doubled_lost_or_stuck(tmp_path: Path, loses_power: bool) -> None:
    """Every record fed is in the output once and in order; offsets and stable offsets agree."""
    said: list[str] = []
    settings = SYNCED if loses_power else {}
    verdict = Round(tmp_path, settings, loses_power, SEED).run(RECORDS, said.append)
    assert verdict.is_clean, (verdict, said)
    assert verdict.records == RECORDS


def test_a_journal_tells_what_is_durable() -> None:
    """Whatever was synced, moved and cut since; half a last line says nothing."""
    journal = (
        '{"synced": {"t-0/0.log": 10, "t-0/5.log": 7}}\n'
        '{"cut": ["t-0/0.log", 8]}\n'
        '{"synced": {"u-0/0.log": 3}}\n'
        '{"moved": ["u-0", "v-0"]}\n'
        '{"synced": {"t-0/5.l'
    )
    assert durable_sizes(journal) == {"t-0/0.log": 8, "t-0/5.log": 7, "v-0/0.log": 3}
