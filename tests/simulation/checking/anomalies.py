"""The anomalies of jepsen.tests.kafka, and whether they may be (brief, table 5.3)."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.checking.history import History


class Anomaly(NamedTuple):
    """`allowed`: not an error, by the promise of transactions (no write isolation, no sessions
    across rebalances)."""

    name: str
    what: str
    allowed: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def check_history(history: History) -> list[Anomaly]:
    """Everything that is found; an error is what is not `allowed`."""
    return []
