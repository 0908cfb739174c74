"""The times at which the faults of a run began and ended, so that a violation can name its
fault."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class Struck(NamedTuple):
    """A fault: its number from 1, its kind, what it has struck, and its times in s. `settled_s` is
    the time at which all clients had succeeded again, and equals `ended_s` until then."""

    number: int
    kind: str
    what: str
    began_s: float
    ended_s: float
    settled_s: float

    def __str__(self) -> str:
        return f"fault {self.number}, {self.kind}: {self.what}"

    @property
    def settling_s(self) -> float:
        return self.settled_s - self.ended_s


@dataclass
class Timeline:
    """The faults of a run in their order."""

    faults: list[Struck] = field(default_factory=list)

    def during(self, at_s: float) -> str:
        """Return the latest fault that had begun, as text."""
        begun = [fault for fault in self.faults if fault.began_s <= at_s]
        return str(begun[-1]) if begun else "before the first fault"


class Moments:
    """The times at which a count has grown."""

    def __init__(self) -> None:
        self.times_s: list[float] = []
        self._count = 0

    def see(self, count: int) -> None:
        if count > self._count:
            self._count = count
            self.times_s.append(time.monotonic())

    @property
    def longest_gap_s(self) -> float:
        return longest_gap_s(self.times_s)


def longest_gap_s(times_s: list[float]) -> float:
    """Return the longest time between two successes."""
    return max((later - earlier for earlier, later in pairwise(times_s)), default=0.0)
