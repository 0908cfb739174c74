"""The results of checks, for `cluster health`, `cluster doctor` and `doctor`."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_client.cli.output import Column, for_people, say, show
from oncelog_client.cli.some_names import some

OK: Final = "ok"
NOTICE: Final = "notice"
PROBLEM: Final = "problem"

FINDING_COLUMNS: Final = (Column("State"), Column("Check"), Column("Found"), Column("To do"))


class Finding(NamedTuple):
    """The result of a check. `to_do` is empty if there is nothing to do."""

    state: str
    check: str
    found: str
    to_do: str = ""


class Row(NamedTuple):
    """The result of a check of the cluster: the number of cases of a problem, their names, and what
    to do."""

    check: str
    state: str
    number: int
    what: list[str]
    to_do: str = ""

    def finding(self) -> Finding:
        """Return the row in the form of `doctor`."""
        if self.state == OK:
            return Finding(OK, self.check, "none")
        return Finding(self.state, self.check, some(self.what) or str(self.number), self.to_do)


def row_of(check: str, state: str, what: list[str], to_do: str) -> Row:
    """Return the row of a check that has `state` if it has found a case."""
    return Row(check, state if what else OK, len(what), what, to_do if what else "")


def show_findings(findings: list[Finding], output: str) -> int:
    """Print the findings. Return the exit code: 1 if there is a problem."""
    if for_people(output):
        for finding in findings:
            say(f"{finding.state:<8} {finding.check}: {finding.found}")
            if finding.to_do:
                say(f"{'':<8} -> {finding.to_do}")
    else:
        show(FINDING_COLUMNS, findings, output=output)
    return int(any(finding.state == PROBLEM for finding in findings))
