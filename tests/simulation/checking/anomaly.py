"""An observation that a log without faults would not allow."""

from __future__ import annotations

from typing import NamedTuple


class Anomaly(NamedTuple):
    """`allowed`: not an error, because transactions do not promise it (writes are not isolated,
    positions of a group move with its members)."""

    name: str
    what: str
    allowed: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"
