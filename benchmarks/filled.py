"""A topic full of 1 KB messages for the loads that read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Final

from benchmarks import machine
from benchmarks.bench import KB_VALUE, Bench
from benchmarks.rings import OF_200_KB, ring

PARTITIONS: Final = 8
_TURNS: Final = 4
_LONGEST_FILL_S: Final = 120.0
# The load generator stops at a limit on bytes, and counts headers and responses too. If the limit
# is `max_bytes` times this factor, the values alone have `max_bytes`.
_WITH_OVERHEAD: Final = 1.05


@dataclass(frozen=True, slots=True)
class Filled:
    """The topic. A round reads it `passes` times, so that a small topic gives much to read."""

    topic: str
    messages: int
    passes: int

    @property
    def gigabytes(self) -> float:
        """Return the gigabytes of values that a round reads."""
        return self.passes * self.messages * KB_VALUE / 1e9


@contextmanager
def filled_topic(bench: Bench) -> Iterator[Filled]:
    """Create a topic of 8 partitions with `max_bytes` of messages. Delete it at the end."""
    with bench.target.topic(PARTITIONS) as topic:
        found = bench.loadgen(
            "repeat",
            bench.requests(ring(topic, PARTITIONS, 1, _TURNS, OF_200_KB)),
            machine.all_cores(),
            connections=PARTITIONS,
            max_bytes=int(bench.pace.max_bytes * _WITH_OVERHEAD),
            seconds=_LONGEST_FILL_S,
        )
        messages = int(found["all_answers"]) * OF_200_KB.records
        yield Filled(topic, messages, passes(bench.pace.consumed_bytes, messages))


def passes(consumed_bytes: int, messages: int) -> int:
    """Return the number of passes in which a round reads at least `consumed_bytes`."""
    return ceil(consumed_bytes / (messages * KB_VALUE))
