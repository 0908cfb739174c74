"""Loads of the load generator. It sends requests as fast as the broker responds, at little cost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks import machine
from benchmarks.bench import MB, Bench, Cores, Figures, Load, Round
from benchmarks.requests import fetch
from benchmarks.rings import OF_1_MB, SMALL, Content, groups, producer_ring, ring
from tests.harness.writing import new_identity

CONNECTIONS: Final = 16
IN_FLIGHT: Final = 5
PARTITIONS: Final = 16
FETCH_BYTES: Final = 1 << 20
FETCHED_PARTITIONS: Final = 4
TURNS: Final = 64
# Number of different large batches for each partition. A load repeats them. A connection has fewer
# batches in flight at a time.
TURNS_OF_LARGE: Final = 8


@contextmanager
def single(bench: Bench) -> Iterator[Round]:
    """One connection with one request at a time, acks=all."""
    with bench.target.topic(1) as topic:
        file = bench.requests(ring(topic, 1, 1, TURNS, SMALL))

        def run(cores: Cores) -> Figures:
            found = bench.loadgen("repeat", file, cores)
            return {"p50_us": found["p50_us"], "cpu_us": cpu_us(found)} | found

        yield run


def small(per_request: int) -> Load:
    """16 connections, each with 5 requests in flight. Each request has one small message for each
    of `per_request` partitions out of 16."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        with bench.target.topic(PARTITIONS) as topic:
            file = bench.requests(ring(topic, PARTITIONS, per_request, TURNS, SMALL))

            def run(cores: Cores) -> Figures:
                found = bench.loadgen(
                    "repeat", file, cores, connections=CONNECTIONS, depth=IN_FLIGHT
                )
                return of_requests(found)

            yield run

    return load


def idempotent(per_request: int) -> Load:
    """The load of `small` by 16 producers with a producer id. Each producer writes to one group of
    `per_request` partitions, with ascending sequence numbers."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        with bench.target.topic(PARTITIONS) as topic:
            parts = groups(PARTITIONS, per_request)

            def run(cores: Cores) -> Figures:
                with bench.target.wire() as wire:
                    producers = [new_identity(wire) for _ in range(CONNECTIONS)]
                entries = [
                    entry
                    for at, producer in enumerate(producers)
                    for entry in producer_ring(
                        topic, parts[at % len(parts)], TURNS, producer, SMALL
                    )
                ]
                found = bench.loadgen(
                    "producers",
                    bench.requests(entries),
                    cores,
                    connections=CONNECTIONS,
                    depth=IN_FLIGHT,
                    steps=TURNS,
                )
                return of_requests(found)

            yield run

    return load


def bulk(content: Content, connections: int, depth: int) -> Load:
    """Large batches, in a new topic for each round to limit the disk space."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        def run(cores: Cores) -> Figures:
            with bench.target.topic(connections) as topic:
                file = bench.requests(ring(topic, connections, 1, TURNS_OF_LARGE, content))
                # Dirty pages of the previous round must not slow this round down.
                os.sync()
                found = bench.loadgen(
                    "repeat",
                    file,
                    cores,
                    connections=connections,
                    depth=depth,
                    max_bytes=bench.pace.max_bytes,
                )
            return of_bytes(found, found["sent_bytes"])

        yield run

    return load


@contextmanager
def fetch_1_mb(bench: Bench) -> Iterator[Round]:
    """Four connections read the first MB of four partitions repeatedly."""
    count = FETCHED_PARTITIONS
    with bench.target.topic(count) as topic:
        fill = bench.requests(ring(topic, count, 1, TURNS_OF_LARGE, OF_1_MB))
        everywhere = machine.all_cores()
        bench.loadgen("repeat", fill, everywhere, connections=count, max_bytes=50 * MB)
        file = bench.requests([fetch(topic, at, FETCH_BYTES) for at in range(count)])

        def run(cores: Cores) -> Figures:
            found = bench.loadgen("repeat", file, cores, connections=count)
            return of_bytes(found, found["received_bytes"])

        yield run


def of_requests(found: Figures) -> Figures:
    """Return the figures with two more in front: the requests per second, and the broker's CPU time
    per request."""
    return {"per_s": found["answers"] / found["seconds"], "cpu_us": cpu_us(found)} | found


def of_bytes(found: Figures, measured_bytes: float) -> Figures:
    """Return the figures with two more in front: the MB per second of `measured_bytes`, and the
    broker's CPU time per GB in both directions."""
    rate = measured_bytes / MB / found["seconds"]
    cpu = found["broker_cpu_s"] / (found["all_bytes"] / 1e9)
    return {"mb_per_s": rate, "cpu_s_per_gb": cpu} | found


def cpu_us(found: Figures) -> float:
    """Return the broker's CPU time per request or per transaction."""
    return found["broker_cpu_s"] / found["all_answers"] * 1e6
