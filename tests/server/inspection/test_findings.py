"""The counts of notes and of problems are separate."""

from __future__ import annotations

from oncelog_server.inspection.findings import CheckTotals, Finding, Severity


def test_notes_and_problems_are_counted_separately() -> None:
    totals = CheckTotals()
    assert (totals.problems, totals.notes) == (0, 0)
    for severity in (Severity.NOTE, Severity.DAMAGE, Severity.NOTE):
        totals.count(Finding(severity, "a.log", "what", "remedy"))
    assert (totals.problems, totals.notes) == (1, 2)
