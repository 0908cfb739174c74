"""Transactions of the load generator: one message to each partition, then commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.bench import Bench, Cores, Figures, Load, Round
from benchmarks.generated import of_requests
from benchmarks.requests import Entry, transaction, transaction_v2
from benchmarks.rings import SMALL, transaction_ring
from tests.harness.writing import new_identity

RETRY_PAUSE_MS: Final = 1
TURNS: Final = 16


def transactions(producers: int, version: int, partitions: int = 1) -> Load:
    """Each producer repeats this transaction: a Produce with one message for each of its
    `partitions` partitions, then a commit. It sends one request at a time. In version 1 the
    producer first adds the partitions. In version 2 (KIP-890) the Produce adds them.

    CONCURRENT_TRANSACTIONS is retried after 1 ms. Real clients wait 20 ms, so this load favors a
    broker that returns this error."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        with bench.target.topic(producers * partitions) as topic:

            def run(cores: Cores) -> Figures:
                entries = _entries(bench, topic, producers, version, partitions)
                steps = len(entries) // producers
                found = bench.loadgen(
                    "steps",
                    bench.requests(entries),
                    cores,
                    connections=producers,
                    steps=steps,
                    unit=steps // TURNS,
                    pause_ms=RETRY_PAUSE_MS,
                )
                return of_requests(found)

            yield run

    return load


def _entries(
    bench: Bench, topic: str, producers: int, version: int, partitions: int
) -> list[Entry]:
    """Return the requests of the transactions. The producers get new epochs first, so that their
    sequence numbers begin at 0."""
    kind = transaction if version == 1 else transaction_v2
    with bench.target.wire() as wire:
        identities = [new_identity(wire, f"bench-{at}") for at in range(producers)]
    return [
        entry
        for at, identity in enumerate(identities)
        for entry in transaction_ring(
            kind, topic, range(at * partitions, (at + 1) * partitions), TURNS, identity, SMALL
        )
    ]
