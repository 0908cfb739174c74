"""Records in the form of a history."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client import ConsumerRecord
from tests.simulation.checking.history import Key, Value


def by_key(records: Iterable[ConsumerRecord]) -> dict[Key, list[tuple[int, Value]]]:
    found: dict[Key, list[tuple[int, Value]]] = {}
    for record in records:
        value = int(record.value or b"-1")
        found.setdefault(f"{record.topic}-{record.partition}", []).append((record.offset, value))
    return found
