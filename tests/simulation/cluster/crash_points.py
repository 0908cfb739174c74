"""The points of the crash matrix of a cluster, as moments on the disks and high watermarks of the
leaders.

The transaction writes to three partitions and a group's offsets, none of them led by the
coordinator. Appends are counted at the leader of each log, and only after the initialization of the
producer. In `__transaction_state`, four appends add partitions, then PREPARE and COMPLETE follow.
In each of the four partitions, the first append is the record, and the second one is the marker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tests.simulation.checking.internal_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from tests.simulation.checking.internal_records import ONGOING as ONGOING_STATE


class Moment(Enum):
    BEFORE = "before an append"
    APPENDED = "after an append, and before any other broker has it"
    COMMITTED = "an append is below the high watermark, and nothing has followed from this"
    ANSWERED = "the client has the response to EndTxn, and no marker has left"


class Place(Enum):
    """Where appends are counted: in one log, or in all partitions at their markers."""

    TRANSACTIONS = "the log of the coordinator"
    FIRST = "the partition with the first record"
    SECOND = "the partition with the second record"
    THIRD = "the partition with the third record"
    MARKERS = "any of the four partitions, at its marker"


ONGOING, PREPARED, COMPLETED = "ongoing", "prepared", "completed"
STATES: Final = {
    ONGOING_STATE: ONGOING,
    PREPARE_COMMIT: PREPARED,
    PREPARE_ABORT: PREPARED,
    COMPLETE_COMMIT: COMPLETED,
    COMPLETE_ABORT: COMPLETED,
}


class Point(NamedTuple):
    """A point, at the `nth` append of a place. If the coordinator is lost at this point, the next
    one must find the transaction in its log with this `state` and this number of `partitions`."""

    name: str
    moment: Moment
    place: Place
    nth: int
    state: str
    partitions: int = 4


POINTS: Final = (
    Point("C0", Moment.BEFORE, Place.TRANSACTIONS, 2, ONGOING, 1),
    Point("C1", Moment.APPENDED, Place.TRANSACTIONS, 2, ONGOING, 1),
    Point("C2", Moment.COMMITTED, Place.TRANSACTIONS, 2, ONGOING, 2),
    Point("C3", Moment.BEFORE, Place.SECOND, 1, ONGOING, 2),
    Point("C4", Moment.APPENDED, Place.THIRD, 1, ONGOING, 3),
    Point("C5", Moment.BEFORE, Place.TRANSACTIONS, 5, ONGOING),
    Point("C6", Moment.APPENDED, Place.TRANSACTIONS, 5, ONGOING),
    Point("C7", Moment.COMMITTED, Place.TRANSACTIONS, 5, PREPARED),
    Point("C8", Moment.ANSWERED, Place.TRANSACTIONS, 5, PREPARED),
    Point("C9", Moment.APPENDED, Place.MARKERS, 1, PREPARED),
    Point("C10-1", Moment.BEFORE, Place.MARKERS, 2, PREPARED),
    Point("C10-2", Moment.BEFORE, Place.MARKERS, 3, PREPARED),
    Point("C10-3", Moment.BEFORE, Place.MARKERS, 4, PREPARED),
    Point("C11", Moment.COMMITTED, Place.MARKERS, 4, PREPARED),
    Point("C12", Moment.BEFORE, Place.TRANSACTIONS, 6, PREPARED),
    Point("C13", Moment.APPENDED, Place.TRANSACTIONS, 6, PREPARED),
    # A completed transaction has no partitions.
    Point("C14", Moment.COMMITTED, Place.TRANSACTIONS, 6, COMPLETED, 0),
)


@dataclass(frozen=True)
class Logs:
    """The logs of the transaction (`a-0`), and the brokers that lead them at its beginning."""

    transactions: str
    data: tuple[str, str, str]
    offsets: str
    leaders: dict[str, int]

    @property
    def marked(self) -> tuple[str, ...]:
        """Return the logs that get a marker."""
        return (*self.data, self.offsets)

    def at(self, place: Place) -> tuple[str, ...]:
        return {
            Place.TRANSACTIONS: (self.transactions,),
            Place.FIRST: self.data[:1],
            Place.SECOND: self.data[1:2],
            Place.THIRD: self.data[2:],
            Place.MARKERS: self.marked,
        }[place]


@dataclass
class Trap:
    """Calls `spring` once, with the log of its point."""

    point: Point
    logs: Logs
    spring: Callable[[str], None]
    is_armed: bool = True
    appends: Counter[str] = field(default_factory=Counter)
    committed: set[str] = field(default_factory=set)

    def append_begins(self, broker_id: int, path: str) -> None:
        name = self._counted(broker_id, path)
        if name is not None:
            self.appends[name] += 1
            self._reach(name, Moment.BEFORE)

    def append_ends(self, broker_id: int, path: str) -> None:
        name = self._counted(broker_id, path)
        if name is not None:
            self._reach(name, Moment.APPENDED)

    def all_committed(self, broker_id: int, name: str) -> None:
        """Note that the high watermark of a leader has reached the end of its log."""
        if self.is_armed and self.logs.leaders.get(name) == broker_id and self._nth(name):
            if self.point.place is Place.MARKERS:
                self.committed.add(name)
                if len(self.committed) < self.point.nth:
                    return
            self._reach(name, Moment.COMMITTED)

    def answered(self) -> None:
        """Note that the client has the response to its EndTxn."""
        self._reach(self.logs.transactions, Moment.ANSWERED)

    def _counted(self, broker_id: int, path: str) -> str | None:
        name, _, file = path.rpartition("/")
        is_led = self.is_armed and self.logs.leaders.get(name) == broker_id
        return name if is_led and file.endswith(".log") else None

    def _nth(self, name: str) -> int:
        """Return the number of appends at the point's place so far, or 0 if this log does not
        belong to that place."""
        place = self.point.place
        if name not in self.logs.at(place):
            return 0
        if place is not Place.MARKERS:
            return self.appends[name]
        if self.appends[name] < 2:
            return 0
        return sum(self.appends[marked] == 2 for marked in self.logs.marked)

    def _reach(self, name: str, moment: Moment) -> None:
        is_there = self.is_armed and moment is self.point.moment
        if is_there and self._nth(name) == self.point.nth:
            self.is_armed = False
            self.spring(name)
