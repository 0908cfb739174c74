"""The rows of rows.tsv. Each row is a scenario that a test must show. Its id never changes."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).with_name("rows.tsv")

# First letter of the ids -> section of docs/scenarios.md, in the order of the page.
FAMILIES: Final[dict[str, str]] = {
    "Z": "Zombies and fencing",
    "T": "Timeouts",
    "C-": "The coordinator dies",
    "C": "The crash matrix: a broker dies between two steps of a transaction",
    "R": "Retries, duplicates, delayed requests",
    "E": "Exhaustion of epochs, ids and sequences",
    "X": "Expiry",
    "L": "Last stable offset, aborted transactions, Fetch",
    "O": "Offsets in transactions",
    "G": "Rebalances",
    "S": "Recovery of the storage",
    "D": "Resources",
    "K": "Clocks",
    "N": "Network and clients",
    "B": "Replication",
    "W": "Two-phase commit",
    "V": "Versions mixed",
    "H": "Hostile input",
}


@dataclass(frozen=True, slots=True)
class Row:
    """`needs`: a requirement beyond one broker without security settings, or nothing. `tried`: what
    the tests do, if the title promises more or may be misunderstood.
    """

    id: str
    needs: str
    title: str
    tried: str = ""

    @property
    def family(self) -> str:
        match = re.match("C-|[A-Z]", self.id)
        assert match is not None, self.id
        return match.group()

    @property
    def token(self) -> str:
        """Return the id as it is in the names of tests: `r7v1` in `test_r7v1_…`."""
        return self.id.lower().replace("-", "")


def all_rows() -> list[Row]:
    """Return all rows in the order of the table."""
    with TABLE.open(encoding="utf-8") as file:
        return [Row(**fields) for fields in csv.DictReader(file, delimiter="\t", restval="")]
