"""The rows of rows.tsv: everything that has to be shown, under a name that stays."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).with_name("rows.tsv")

# What the letters before the number stand for, in the order of the page.
FAMILIES: Final[dict[str, str]] = {
    "Z": "Zombies and fencing",
    "T": "Time-outs",
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
    """`needs`: what a single broker without security settings has not; empty if it has all.
    `tried`: what its tests do of it where that is not all, or what holds otherwise than one may
    expect."""

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
        """As it stands in the name of a test: `test_r7v1_…`, `test_ca_…`."""
        return self.id.lower().replace("-", "")


def all_rows() -> list[Row]:
    """In the order of the table."""
    with TABLE.open(encoding="utf-8") as file:
        return [Row(**fields) for fields in csv.DictReader(file, delimiter="\t", restval="")]
