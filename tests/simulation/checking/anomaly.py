"""An observation of clients that looks like a fault of the log."""

from __future__ import annotations

from typing import NamedTuple


class Anomaly(NamedTuple):
    """`allowed`: True if the anomaly is no error, because transactions do not exclude it. The
    writes of a transaction are not isolated, and the positions of a group move with its members."""

    name: str
    what: str
    allowed: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"
