"""The loads: the work of one round, and its figures.

A load is a context manager: it makes what its rounds share, and returns the function of one round.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import machine
from benchmarks.loadgen import run_load, run_loadgen
from benchmarks.requests import (
    Entry,
    a_batch,
    fetch,
    produce,
    transaction,
    transaction_v2,
    write_entries,
)
from benchmarks.targets import Target
from tests.harness.writing import new_identity

MB: Final = 1_000_000
SMALL_VALUE: Final = 100
KB_VALUE: Final = 1024
FETCH_BYTES: Final = 1 << 20
# A batch of this many records of 1 KB is just below the default of max.message.bytes.
RECORDS_OF_1_MB: Final = 1_000
RECORDS_OF_16_KB: Final = 16
RETRY_PAUSE_MS: Final = 1


@dataclass(frozen=True, slots=True)
class Pace:
    """The length of a round: a time, and for large data also a limit of bytes."""

    seconds: float
    max_bytes: int
    partitions: int = 10_000
    producers: int = 10_000
    connections: int = 5_000


FULL: Final = Pace(seconds=4.0, max_bytes=2_000 * MB)
QUICK: Final = Pace(1.0, 200 * MB, partitions=100, producers=100, connections=100)

Cores = Set[int]
Round = Callable[[Cores], dict[str, float]]
"""Runs the load on these cores. Returns the figures by name; the first is the pace."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a load: the broker, the length of a round, a folder for files."""

    target: Target
    pace: Pace
    folder: Path

    def requests(self, entries: list[Entry]) -> Path:
        """Write these requests to a file for the load generator."""
        return write_entries(self.folder / f"{self.target.name}.requests", entries)

    def loadgen(
        self, mode: str, requests: Path, cores: Cores, **options: float
    ) -> dict[str, float]:
        """Run the load generator; add the broker's CPU time to its figures."""
        before = machine.cpu_seconds(self.target.pid)
        words = {name.replace("_", "-"): value for name, value in options.items()}
        words = {"seconds": self.pace.seconds} | words
        found = run_loadgen(mode, self.target.port, requests, cores, words)
        return found | {"broker_cpu_s": machine.cpu_seconds(self.target.pid) - before}

    def librdkafka(self, mode: str, topic: str, cores: Cores, *words: str) -> dict[str, float]:
        """Run librdkafka; add the broker's CPU time to its figures."""
        before = machine.cpu_seconds(self.target.pid)
        command = [sys.executable, "-m", "benchmarks.rdload", mode, self.target.address, topic]
        found = run_load([*command, f"--seconds={self.pace.seconds}", *words], cores)
        return found | {"broker_cpu_s": machine.cpu_seconds(self.target.pid) - before}


Load = Callable[[Bench], AbstractContextManager[Round]]


@contextmanager
def single(bench: Bench) -> Iterator[Round]:
    """One connection, one request at a time, acks=all."""
    with bench.target.topic(1) as topic:
        file = bench.requests([produce(topic, 0, small_batch())])

        def run(cores: Cores) -> dict[str, float]:
            found = bench.loadgen("repeat", file, cores)
            return {"p50_us": found["p50_us"]} | found

        yield run


@contextmanager
def small(bench: Bench) -> Iterator[Round]:
    """16 connections with 5 requests of one small message in flight, each to its partition."""
    with bench.target.topic(16) as topic:
        file = bench.requests([produce(topic, at, small_batch()) for at in range(16)])

        def run(cores: Cores) -> dict[str, float]:
            found = bench.loadgen("repeat", file, cores, connections=16, depth=5)
            cpu_us = found["broker_cpu_s"] / found["all_answers"] * 1e6
            return {"per_s": found["answers"] / found["seconds"], "cpu_us": cpu_us} | found

        yield run


def bulk(records: int, connections: int, depth: int) -> Load:
    """Big batches of 1 KB messages, in a new topic for each round to limit the disk space."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        def run(cores: Cores) -> dict[str, float]:
            with bench.target.topic(connections) as topic:
                batch = a_batch_of_kilobytes(records)
                file = bench.requests([produce(topic, at, batch) for at in range(connections)])
                # Dirty pages of the round before must not slow this one down.
                os.sync()
                found = bench.loadgen(
                    "repeat",
                    file,
                    cores,
                    connections=connections,
                    depth=depth,
                    max_bytes=bench.pace.max_bytes,
                )
            return {"mb_per_s": found["sent_bytes"] / MB / found["seconds"]} | found

        yield run

    return load


@contextmanager
def fetch_1_mb(bench: Bench) -> Iterator[Round]:
    """Four connections read the first MB of four partitions again and again."""
    with bench.target.topic(4) as topic:
        batch = a_batch_of_kilobytes(RECORDS_OF_1_MB)
        fill = bench.requests([produce(topic, at, batch) for at in range(4)])
        everywhere = machine.all_cores()
        bench.loadgen("repeat", fill, everywhere, connections=4, seconds=0.5, max_bytes=50 * MB)
        file = bench.requests([fetch(topic, at, FETCH_BYTES) for at in range(4)])

        def run(cores: Cores) -> dict[str, float]:
            found = bench.loadgen("repeat", file, cores, connections=4)
            return {"mb_per_s": found["received_bytes"] / MB / found["seconds"]} | found

        yield run


def librdkafka_produce(value_bytes: int) -> Load:
    """One librdkafka producer with its own batches, linger 5 ms, eight partitions."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        def run(cores: Cores) -> dict[str, float]:
            words = [f"--size={value_bytes}", f"--max-bytes={bench.pace.max_bytes}"]
            with bench.target.topic(8) as topic:
                found = bench.librdkafka("produce", topic, cores, "--partitions=8", *words)
            gigabytes = found["messages"] * value_bytes / 1e9
            cpu = found["broker_cpu_s"] / gigabytes
            return {"per_s": found["messages_per_s"], "cpu_s_per_gb": cpu}

        yield run

    return load


@contextmanager
def librdkafka_consume(bench: Bench) -> Iterator[Round]:
    """One librdkafka consumer reads eight partitions of 1 KB messages from the start."""
    with bench.target.topic(8) as topic:
        batch = a_batch_of_kilobytes(200)
        file = bench.requests([produce(topic, at, batch) for at in range(8)])
        fill = bench.pace.max_bytes // 4
        everywhere = machine.all_cores()
        filled = bench.loadgen("repeat", file, everywhere, connections=8, max_bytes=fill)
        messages = int(filled["all_answers"]) * 200
        words = ["--partitions=8", f"--messages={messages}"]

        def run(cores: Cores) -> dict[str, float]:
            found = bench.librdkafka("consume", topic, cores, *words)
            cpu = found["broker_cpu_s"] / (messages * KB_VALUE / 1e9)
            return {"per_s": found["messages_per_s"], "cpu_s_per_gb": cpu}

        yield run


@contextmanager
def librdkafka_transactions(bench: Bench) -> Iterator[Round]:
    """One librdkafka producer: begin, one message, commit."""
    with bench.target.topic(1) as topic:

        def run(cores: Cores) -> dict[str, float]:
            words = [f"--size={SMALL_VALUE}", "--linger-ms=0"]
            found = bench.librdkafka("transactions", topic, cores, *words)
            return {"per_s": found["transactions_per_s"], "p99_us": found["p99_us"]} | found

        yield run


def transactions(producers: int, version: int) -> Load:
    """Produce one message and commit, in lock step by each of the producers. In version 1 they add
    the partition first; in version 2 (KIP-890) Produce does it.

    CONCURRENT_TRANSACTIONS is retried after 1 ms. Real clients wait 20 ms, so a broker that sends
    this error looks better here than with them.
    """

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        with bench.target.topic(producers) as topic:

            def run(cores: Cores) -> dict[str, float]:
                entries = _transactions(bench.target, topic, producers, version)
                found = bench.loadgen(
                    "steps",
                    bench.requests(entries),
                    cores,
                    connections=producers,
                    steps=len(entries) // producers,
                    pause_ms=RETRY_PAUSE_MS,
                )
                cpu_us = found["broker_cpu_s"] / found["all_answers"] * 1e6
                return {"per_s": found["answers"] / found["seconds"], "cpu_us": cpu_us} | found

            yield run

    return load


def _transactions(target: Target, topic: str, producers: int, version: int) -> list[Entry]:
    """Return the requests of the transactions. The producers' epochs are bumped before, so that
    their sequences begin at 0."""
    entries_of = transaction if version == 1 else transaction_v2
    with target.wire() as wire:
        identities = [new_identity(wire, f"bench-{at}") for at in range(producers)]
    return [
        entry
        for at, identity in enumerate(identities)
        for entry in entries_of(topic, at, identity, SMALL_VALUE)
    ]


@contextmanager
def lost_to_transactions(bench: Bench) -> Iterator[Round]:
    """One librdkafka producer of 1 KB messages: first only idempotent, then in transactions.

    Linger is 0: otherwise the client would add 5 ms to every transaction.
    """

    def run(cores: Cores) -> dict[str, float]:
        rates = {}
        for name, word in _COMMITS.items():
            with bench.target.topic(8) as topic:
                words = ["--partitions=8", "--linger-ms=0", word]
                found = bench.librdkafka("produce", topic, cores, *words)
            rates[name] = found["messages_per_s"]
        plain = rates["plain"]
        lost = {name: (1 - rate / plain) * 100 for name, rate in rates.items() if rate != plain}
        return {"per_s": plain} | lost

    yield run


_COMMITS: Mapping[str, str] = {
    "plain": "--idempotent",
    "at_100_ms": "--commit-ms=100",
    "at_10_ms": "--commit-ms=10",
}


def small_batch() -> bytearray:
    return a_batch(1, SMALL_VALUE)


def a_batch_of_kilobytes(count: int) -> bytearray:
    return a_batch(count, KB_VALUE)


LOADS: Mapping[str, Load] = {
    "single": single,
    "small": small,
    "produce16k": bulk(RECORDS_OF_16_KB, connections=4, depth=5),
    "produce1m": bulk(RECORDS_OF_1_MB, connections=2, depth=2),
    "fetch1m": fetch_1_mb,
    "rd100": librdkafka_produce(SMALL_VALUE),
    "rd1k": librdkafka_produce(KB_VALUE),
    "consume1k": librdkafka_consume,
    "rdtxn": librdkafka_transactions,
    "txn1": transactions(1, version=2),
    "txn16": transactions(16, version=2),
    "txn1v1": transactions(1, version=1),
    "txn16v1": transactions(16, version=1),
    "lost": lost_to_transactions,
}
"""The loads on running, warm brokers, by the names in the rows."""
