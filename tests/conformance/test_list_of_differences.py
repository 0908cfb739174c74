"""Every entry in `differences.py`, the list of differences from Kafka, has a test on both brokers
and a row in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance import differences
from tests.conformance.differences import Difference

HERE = Path(__file__).parent
LIST = (HERE.parents[1] / "docs" / "semantics.md").read_text(encoding="utf-8")
NAMES = [name for name, value in vars(differences).items() if isinstance(value, Difference)]


@pytest.mark.parametrize("name", NAMES)
def test_a_difference_has_a_source_a_test_and_a_row(name: str) -> None:
    difference: Difference = getattr(differences, name)
    assert difference.expected("kafka") != difference.expected("oncelog")
    assert difference.source
    # A test file that imports and uses the entry.
    users = [
        path.name
        for path in HERE.glob("test_*.py")
        if len(re.findall(rf"\b{name}\b", path.read_text(encoding="utf-8"))) > 1
    ]
    *_, section = LIST.partition("## Where we differ from Kafka on purpose")
    assert any(f"`conformance/{user}::" in section for user in users), users
