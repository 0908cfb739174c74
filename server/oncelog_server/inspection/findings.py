"""The findings of `oncelog logs verify`, with advice for each."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Severity(StrEnum):
    """The severity of a finding.

    DAMAGE: records are lost or unreadable. DERIVED: a file that can be computed from the log is
    wrong. NOTE: information, no problem.
    """

    DAMAGE = "damage"
    DERIVED = "derived"
    NOTE = "note"


class Finding(NamedTuple):
    """A problem or a note about the file `path`, with a byte position and an offset if known."""

    severity: Severity
    path: str
    what: str
    to_do: str
    position: int | None = None
    offset: int | None = None


RESTORE: Final = (
    "copy the folder before a broker starts on it; restore the partition from a backup or a"
    " replica, or read what is left with `oncelog logs dump --print-data-log`"
)
REBUILT: Final = (
    "nothing with oncelog, which makes the file again; for Apache Kafka, delete the file while no"
    " broker runs"
)
CUT_AT_START: Final = (
    "start the broker: it truncates the log here; these bytes were never acknowledged as flushed"
)
ORPHAN: Final = (
    "the next start of the broker deletes this file; if its .log file is missing, find that first"
)
FINISHED_AT_START: Final = "nothing: the next start of the broker deletes or completes it"
RUN_AGAIN: Final = "run the command again: the broker has changed the files meanwhile"


class CheckTotals:
    """The numbers of checked items and of findings."""

    def __init__(self) -> None:
        self.partitions = 0
        self.segments = 0
        self.batches = 0
        self.bytes = 0
        self.problems = 0
        self.notes = 0

    def count(self, finding: Finding) -> None:
        if finding.severity is Severity.NOTE:
            self.notes += 1
        else:
            self.problems += 1
