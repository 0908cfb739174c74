"""Start and growth, measured on fresh brokers.

Growth compares the latency of one message at a time before and after the broker holds many objects.
"""

from __future__ import annotations

import compileall
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import oncelog_client
import oncelog_protocol
import oncelog_server
from benchmarks import machine, tls_connections
from benchmarks.batches import a_batch
from benchmarks.bench import MB, SMALL_VALUE, Bench, Cores, Figures, Pace
from benchmarks.compaction import while_compacting
from benchmarks.requests import Entry, produce
from benchmarks.rings import SMALL, ring
from benchmarks.setups import PLAIN, TLS, Setup
from benchmarks.targets import Makers, Target, running, seconds_to_first_answer
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from tests.harness.writing import Identity, init_producer_id

IDLE_S = 3.0
TURNS = 64
# Kafka's controller refuses to create more than 10,000 partitions in one request.
PARTITIONS_PER_TOPIC = 1_000

Grow = Callable[[Bench, Cores], Figures]


def start(target: Target, cores: Cores) -> Figures:
    """Start a broker, and stop it. Return the time to its first response, and its memory `IDLE_S`
    later."""
    seconds = seconds_to_first_answer(target, cores)
    time.sleep(IDLE_S)
    memory = machine.resident_bytes(target.pid)
    target.broker.stop()
    return {"first_answer_ms": seconds * 1000, "idle_mb": memory / MB}


def measure_start(
    makers: Makers, folder: Path, cores: Cores, rounds: int
) -> dict[str, list[Figures]]:
    """Start each broker `rounds` times in turn. One earlier start of each broker is not
    measured."""
    compile_packages()
    found: dict[str, list[Figures]] = {name: [] for name in makers}
    with running(makers, folder, cores) as targets:
        for target in targets:
            target.broker.stop()
        for _ in range(rounds):
            for target in targets:
                found[target.name].append(start(target, cores))
    return found


def compile_packages() -> None:
    """Compile the packages, as pip does. A checkout has no byte code, and an import writes none if
    PYTHONDONTWRITEBYTECODE is set."""
    for package in (oncelog_protocol, oncelog_server, oncelog_client):
        for folder in package.__path__:
            compileall.compile_dir(folder, quiet=1)


def latency_us(bench: Bench, entries: list[Entry], cores: Cores) -> float:
    """Send one message at a time. Return the median latency: the median of three runs."""
    file = bench.requests(entries)
    runs = [bench.loadgen("repeat", file, cores)["p50_us"] for _ in range(3)]
    return statistics.median(runs)


def kilobytes_each(bench: Bench, before: int, items: int) -> float:
    """Return the growth of the broker's resident memory since `before` (bytes), per object, in
    KB."""
    return (machine.resident_bytes(bench.target.pid) - before) / 1000 / items


def many_partitions(bench: Bench, cores: Cores) -> Figures:
    """Measure one message at a time to each of 10,000 partitions in turn, and to one partition."""
    count = bench.pace.partitions
    per_topic = min(count, PARTITIONS_PER_TOPIC)
    with ExitStack() as topics:
        single = topics.enter_context(bench.target.topic(1))
        small = latency_us(bench, ring(single, 1, 1, TURNS, SMALL), cores)
        before = machine.resident_bytes(bench.target.pid)
        names = [
            topics.enter_context(bench.target.topic(per_topic)) for _ in range(count // per_topic)
        ]
        entries = [entry for name in names for entry in ring(name, per_topic, 1, 1, SMALL)]
        # The first message of a partition opens its files, which must not be measured.
        bench.loadgen("repeat", bench.requests(entries), cores, settle_ms=0, answers=count)
        figures = {"kb_each": kilobytes_each(bench, before, count)}
        return figures | {"slower": latency_us(bench, entries, cores) / small}


def many_producers(bench: Bench, cores: Cores) -> Figures:
    """Measure one message at a time to a partition, before and after 10,000 idempotent producers
    write to it."""
    count = bench.pace.producers
    with bench.target.topic(1) as topic:
        requests = ring(topic, 1, 1, TURNS, SMALL)
        small = latency_us(bench, requests, cores)
        before = machine.resident_bytes(bench.target.pid)
        file = bench.requests(_first_batches(bench, topic))
        bench.loadgen("repeat", file, cores, settle_ms=0, answers=count)
        figures = {"kb_each": kilobytes_each(bench, before, count)}
        return figures | {"slower": latency_us(bench, requests, cores) / small}


def _first_batches(bench: Bench, topic: str) -> list[Entry]:
    """Return requests with the first batch of each producer, with its producer id."""
    entries = []
    with bench.target.wire() as wire:
        for _ in range(bench.pace.producers):
            given = init_producer_id(wire, None)
            identity = Identity(given.producer_id, given.producer_epoch)
            entries.append(produce(topic, {0: a_batch(1, SMALL_VALUE, identity)}, identity))
    return entries


def many_connections(bench: Bench, cores: Cores) -> Figures:
    """Measure one message at a time, before and while 5,000 more connections are open. Each of them
    has sent one request."""
    count = bench.pace.connections
    machine.allow_open_files(count + 100)
    with bench.target.topic(1) as topic, ExitStack() as wires:
        requests = ring(topic, 1, 1, TURNS, SMALL)
        small = latency_us(bench, requests, cores)
        before = machine.resident_bytes(bench.target.pid)
        for _ in range(count):
            wires.enter_context(bench.target.wire()).call(ApiVersionsRequest("bench", "1"), 3)
        figures = {"kb_each": kilobytes_each(bench, before, count)}
        return figures | {"slower": latency_us(bench, requests, cores) / small}


GROWTH_OF: Mapping[Setup, Mapping[str, Grow]] = {
    PLAIN: {
        "partitions": many_partitions,
        "producers": many_producers,
        "idle": many_connections,
        "compaction": while_compacting,
    },
    TLS: {"tlsidle": tls_connections.idle},
}
GROWTH: Mapping[str, Grow] = {
    name: grow for loads in GROWTH_OF.values() for name, grow in loads.items()
}


def measure_growth(
    name: str, makers: Makers, folder: Path, pace: Pace, broker: Cores, load: Cores
) -> dict[str, list[Figures]]:
    """Start each broker on an empty folder, warm it up, and measure its growth."""
    setup = next(setup for setup, loads in GROWTH_OF.items() if name in loads)
    found: dict[str, list[Figures]] = {}
    for target_name, make in makers.items():
        with running({target_name: make}, folder / name, broker, setup) as targets:
            # A checkout that does not have what the setup needs is no target.
            for target in targets:
                bench = Bench(target, pace, folder)
                with target.topic(1) as topic:
                    warm = bench.requests(ring(topic, 1, 1, TURNS, SMALL))
                    seconds = pace.seconds * 3
                    bench.loadgen("repeat", warm, load, connections=4, depth=5, seconds=seconds)
                found[target_name] = [GROWTH[name](bench, load)]
    return found
