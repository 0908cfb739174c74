"""Poll the consumers of any client until a condition holds, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

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
    """Poll all consumers at the same time until `condition()` holds. Return the records that they
    have read.

    The members of a group must not be polled in turn: kafka-python 3.0.12 forgets a join of the
    leader that takes longer than a poll, and joins again. In turn, the join of the leader always
    takes longer, because the other member joins only in its own poll.
    """
    end = time.monotonic() + deadline_s
    records: list[Received] = []
    with ThreadPoolExecutor(len(consumers)) as threads:
        while not condition():
            found = [sorted(consumer.assignment()) for consumer in consumers]
            assert time.monotonic() < end, f"not within {deadline_s} s: {what}; assigned: {found}"
            for batch in threads.map(lambda consumer: consumer.poll(0.1), consumers):
                records += batch
    return records
