"""The result of a row of the matrix, as the summary of the run shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass

import pytest

PROPERTY = "ecosystem"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Counts of records and kills. `open` is the number of transactions that have not ended."""

    kills: str
    records: int
    lost: int
    doubled: int
    open: int

    def is_exact(self) -> bool:
        return self.lost == self.doubled == self.open == 0


def compare(
    expected: Iterable[Hashable],
    seen: Iterable[Hashable],
    open_transactions: Iterable[object],
    kills: str,
) -> Outcome:
    """Compare records as multisets. A record that nothing has written counts as doubled."""
    wanted, found = Counter(expected), Counter(seen)
    return Outcome(
        kills,
        wanted.total(),
        (wanted - found).total(),
        (found - wanted).total(),
        len(list(open_transactions)),
    )


def summary(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each row in the reports, below a line of titles."""
    lines = []
    for report in reports:
        for name, row in report.user_properties:
            if name == PROPERTY:
                assert isinstance(row, dict)
                test = report.nodeid.removeprefix("tests/ecosystem/")
                lines.append(f"{test}: " + ", ".join(f"{key} {row[key]}" for key in row))
    return sorted(lines)


def recorded(request: pytest.FixtureRequest, outcome: Outcome) -> Outcome:
    """Add the outcome to the report of the test, and return it."""
    request.node.user_properties.append((PROPERTY, asdict(outcome)))
    return outcome
