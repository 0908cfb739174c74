"""What `oncelog logs verify` finds, and what is to be done about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Severity(StrEnum):
    """DAMAGE: records are lost or unreadable. DERIVED: a file beside the log is wrong, and can be
    computed from it. NOTE: as it may be, worth knowing."""

    DAMAGE = "damage"
    DERIVED = "derived"
    NOTE = "note"


class Finding(NamedTuple):
    """One thing that is wrong: in which file, at which byte of it and at which offset of the
    partition, where these are known."""

    severity: Severity
    path: str
    what: str
    to_do: str
    position: int | None = None
    offset: int | None = None


RESTORE: Final = (
    "make a copy of the folder before a broker is started on it; bring the partition back from a"
    " backup or a replica, or read what is left with `oncelog logs dump --print-data-log`"
)
REBUILT: Final = (
    "nothing with oncelog, which computes it from the log; for Apache Kafka delete the file while"
    " no broker runs"
)
CUT_AT_START: Final = (
    "start the broker: it cuts the log here, as these bytes were never acknowledged as flushed"
)
ORPHAN: Final = "the next start of the broker removes it; if its log is missing, look for the log"
FINISHED_AT_START: Final = "nothing: the next start of the broker removes or finishes it"
RUN_AGAIN: Final = "run it again: the broker has changed the files meanwhile"


class Totals:
    """What has been looked at."""

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
