"""Configurations of the sink's model. The states of each one are searched completely: the small
configurations in each test run, the others by `make explore`. The mutants need the medium ones."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from oncelog_client.spark.sink.protocol import planning

from .checks import Checks
from .events import Events
from .group_sink import GroupSink
from .machines import Machines
from .record_sink import RecordSink
from .search import Search
from .world import Budget, Size, World, beginning

# Maximum number of takeovers while two drivers plan at the same time. The real maximum would add
# only states that are equal except for higher generations.
TAKEOVERS: Final = 1


class Configuration(NamedTuple):
    sink: Machines
    size: Size
    budget: Budget

    def __str__(self) -> str:
        faults = [f"{name}={count}" for name, count in self.budget._asdict().items() if count]
        size = f"{self.size.batches}x{self.size.partitions}"
        return " ".join([f"by {self.sink.kind}", size, *faults])


def search(configuration: Configuration, most_states: int = 4_000_000) -> Search[World]:
    sink, size, budget = configuration
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MOST_TAKEOVERS", TAKEOVERS)
        events, checks = Events(sink, size), Checks(sink, size)
        return Search(events, checks, most_states).run(beginning(budget, size))


GROUP: Final = GroupSink()
RECORD: Final = RecordSink()
ONE_BY_ONE: Final = Size(batches=1, partitions=1)
TWO_BATCHES: Final = Size(batches=2, partitions=1)
TWO_TASKS: Final = Size(batches=1, partitions=2)
TWO_BY_TWO: Final = Size(batches=2, partitions=2)
# Only batch 1 of the three has rows. Either of two processes may plan a batch.
SOME_EMPTY: Final = Size(batches=3, partitions=1, processes=2, empty=frozenset({(0, 0), (2, 0)}))

SMALL: Final = (
    Configuration(GROUP, TWO_BATCHES, Budget(crashes=1)),
    Configuration(GROUP, TWO_TASKS, Budget(crashes=1)),
    Configuration(GROUP, TWO_BATCHES, Budget(copies=2, restarts=1)),
    Configuration(GROUP, TWO_BATCHES, Budget(attempts=1, timeouts=1, losses=1, restarts=1)),
    Configuration(GROUP, TWO_TASKS, Budget(attempts=1, timeouts=1, restarts=1)),
    Configuration(GROUP, SOME_EMPTY, Budget(copies=1, switches=2, restarts=1)),
    Configuration(GroupSink(splits_looks=True), TWO_BATCHES, Budget(attempts=1, timeouts=1)),
    Configuration(GroupSink(knows_query=False), TWO_BATCHES, Budget(attempts=1, losses=1)),
    Configuration(RECORD, TWO_BATCHES, Budget(crashes=1)),
    Configuration(RECORD, TWO_TASKS, Budget(crashes=1)),
    Configuration(RECORD, TWO_BATCHES, Budget(attempts=1, losses=1, restarts=1, heirs=1)),
    Configuration(RECORD, SOME_EMPTY, Budget(switches=2, losses=1, restarts=1)),
)

# A crash and another fault: half of the processor time of all small configurations.
MEDIUM: Final = (
    Configuration(GROUP, TWO_BATCHES, Budget(crashes=1, heirs=1)),
    Configuration(GROUP, TWO_BATCHES, Budget(crashes=1, losses=1)),
    Configuration(GROUP, TWO_BATCHES, Budget(crashes=1, rests=1)),
    Configuration(RECORD, TWO_BATCHES, Budget(crashes=1, timeouts=1)),
)

_LARGE: Final = (
    (TWO_BATCHES, Budget(crashes=1, attempts=1)),
    (TWO_BATCHES, Budget(crashes=1, attempts=1, heirs=1)),
    (TWO_BATCHES, Budget(crashes=1, attempts=1, losses=1)),
    (TWO_BATCHES, Budget(crashes=1, restarts=1, heirs=1)),
    (TWO_TASKS, Budget(crashes=1, attempts=1)),
    (TWO_TASKS, Budget(crashes=1, losses=1, timeouts=1)),
    (TWO_BY_TWO, Budget(crashes=1, timeouts=1)),
    (ONE_BY_ONE, Budget(crashes=2)),
)
LARGE: Final = (
    *MEDIUM,
    *(Configuration(sink, *row) for sink in (GROUP, RECORD) for row in _LARGE),
    Configuration(GROUP, TWO_BATCHES, Budget(crashes=1, copies=1)),
    Configuration(GROUP, ONE_BY_ONE, Budget(crashes=1, copies=1, restarts=1)),
)
