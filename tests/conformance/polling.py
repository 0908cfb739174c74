"""Poll the consumers of any client until a condition holds, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.conformance.clients.interface import Consumer, Received
from tests.harness.waiting import DEADLINE_S


def read(consumer: Consumer, count: int, deadline_s: float = DEADLINE_S) -> list[Received]:
    """Return the next `count` records, sorted by partition and offset. Fails if fewer come."""
    end = time.monotonic() + deadline_s
    records: list[Received] = []
    while len(records) < count:
        assert time.monotonic() < end, f"{len(records)} of {count} records in {deadline_s} s"
        records += consumer.poll(0.2)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def poll_until(
    consumers: Sequence[Consumer],
    condition: Callable[[], object],
    what: str,
    deadline_s: float = DEADLINE_S,
) -> list[Received]:
    """Poll all consumers in turn until `condition()` holds. Return the records that they have
    read."""
    end = time.monotonic() + deadline_s
    records: list[Received] = []
    while not condition():
        found = [sorted(consumer.assignment()) for consumer in consumers]
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}; assigned: {found}"
        for consumer in consumers:
            records += consumer.poll(0.1)
    return records
