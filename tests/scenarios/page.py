"""The text of docs/scenarios.md, from the scenarios in `rows.tsv` and the names of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.scenarios.rows import FAMILIES, Row

MOST_TESTS = 4

INTRODUCTION = """\
# Scenarios

This page answers: what can go wrong with a transaction, and which tests show what happens then?

Generated from `tests/scenarios/rows.tsv` and the names of the tests, by
`python -m tests.scenarios > docs/scenarios.md`. Do not edit it.

- Each row has an id that never changes. Names of tests begin with the ids of what they show.
- TC is the transaction coordinator, PL a partition's leader, GC the group's coordinator. P1 and P2
  are instances of one transactional id, P2 the newer one.
- T is a transaction's timeout, A the interval of the scan for overdue transactions.
- V1 is a client that adds its partitions by itself, V2 a client with an epoch for each transaction
  (KIP-890).
- A test of one broker kills this broker where a row says that TC, PL or GC dies: the broker is all
  three at once. In `cluster/` and `simulation/cluster/` they are different brokers, and fail over.
- *Tried:* describes tests that cover only a part, or have an unexpected result.
"""


def page(rows: Sequence[Row], tests: Mapping[str, Sequence[str]]) -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, _summary(rows, tests)]
    for family, title in FAMILIES.items():
        of_family = [row for row in rows if row.family == family]
        lines = [f"## {title}", "", "| | scenario | shown by |", "|---|---|---|"]
        lines += [
            f"| {row.id} | {_said(row)} | {_shown(row, tests[row.id])} |" for row in of_family
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _summary(rows: Sequence[Row], tests: Mapping[str, Sequence[str]]) -> str:
    covered = [row for row in rows if tests[row.id]]
    missing = open_rows(rows, tests)
    later = [row for row in rows if row.needs and not tests[row.id]]
    partly = [row for row in covered if row.needs]
    lines = [f"{len(rows)} scenarios, {len(covered)} of them shown by tests."]
    if missing:
        lines += ["", f"Open: {', '.join(row.id for row in missing)}."]
    for state, needing in (("Open", later), ("Open in part", partly)):
        for reason in sorted({row.needs for row in needing}):
            names = [row.id for row in needing if row.needs == reason]
            lines += ["", f"{state} because they need {reason}: {', '.join(names)}."]
    return "\n".join(lines) + "\n"


def open_rows(rows: Sequence[Row], tests: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return the rows that one broker can show but no test shows."""
    return [row for row in rows if not row.needs and not tests[row.id]]


def _said(row: Row) -> str:
    return f"{row.title}<br>*Tried:* {row.tried}" if row.tried else row.title


def _shown(row: Row, names: Sequence[str]) -> str:
    if not names:
        return f"open: needs {row.needs}" if row.needs else "open"
    shown = [f"`{name.removeprefix('tests/')}`" for name in names[:MOST_TESTS]]
    if len(names) > MOST_TESTS:
        shown.append(f"and {len(names) - MOST_TESTS} more")
    return "<br>".join(shown)
