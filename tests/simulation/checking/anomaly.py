"""One thing that a history shows and a log without faults would not."""

from __future__ import annotations

from typing import NamedTuple


class Anomaly(NamedTuple):
    """`allowed`: not an error, by the promise of transactions (no isolation of writes, positions of
    a group move with its members)."""

    name: str
    what: str
    allowed: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"
