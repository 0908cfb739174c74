"""The loads of a healthy cluster. The key is the name of a load in the results."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.bench import MB, SMALL_VALUE, Cores, Figures, Round
from benchmarks.cluster.clusters import SIZE, Cluster
from benchmarks.cluster.topics import Topic
from benchmarks.loadgen import run_load, run_loadgen
from benchmarks.requests import produce, write_entries
from benchmarks.rings import OF_1_MB, OF_16_KB, SMALL, Content

PARTITIONS: Final = 9
TURNS: Final = 64
TURNS_OF_LARGE: Final = 8
MANY_PARTITIONS: Final = 1_000
MANY_PRODUCERS: Final = 16
IDLE_S: Final = 10.0
# The offered load, as a share of the slower cluster's maximum of small requests.
OFFERED: Final = 0.3


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a load. `seconds`: the length of a round. `max_bytes`: the most that a round
    writes. `offered_per_s`: the messages a second of the load `offered`. `partitions`: the number
    of partitions in a load with many."""

    cluster: Cluster
    folder: Path
    seconds: float
    max_bytes: int
    partitions: int
    offered_per_s: float

    def librdkafka(self, mode: str, topic: Topic, cores: Cores, *words: str) -> Figures:
        """Run librdkafka. Add the CPU time of the cluster to its figures."""
        command = [sys.executable, "-m", "benchmarks.rdload", mode, self.cluster.address]
        command += [topic.name, f"--seconds={self.seconds}", *words]
        return self.with_cpu(lambda: run_load(command, cores))

    def with_cpu(self, run: Callable[[], Figures]) -> Figures:
        """Run a load. Add the CPU time of all processes of the cluster to its figures."""
        before = self.cluster.cpu_seconds()
        found = run()
        return found | {"cpu_s": self.cluster.cpu_seconds() - before}


Load = Callable[[Bench], AbstractContextManager[Round]]


@contextmanager
def single(bench: Bench) -> Iterator[Round]:
    """librdkafka produces one message at a time, acks=all."""
    with bench.cluster.topic(1) as topic:

        def run(cores: Cores) -> Figures:
            words = [f"--size={SMALL_VALUE}", "--linger-ms=0"]
            return bench.librdkafka("single", topic, cores, *words)

        yield run


@contextmanager
def offered(bench: Bench) -> Iterator[Round]:
    """librdkafka produces messages at a fixed rate."""
    with bench.cluster.topic(PARTITIONS) as topic:

        def run(cores: Cores) -> Figures:
            words = [f"--size={SMALL_VALUE}", "--linger-ms=0", f"--partitions={PARTITIONS}"]
            rate = f"--rate={bench.offered_per_s}"
            return bench.librdkafka("offered", topic, cores, rate, *words)

        yield run


@contextmanager
def small(bench: Bench) -> Iterator[Round]:
    """One load generator for each leader. Each has 6 connections with 5 requests in flight."""
    with bench.cluster.topic(PARTITIONS) as topic:
        files = requests_of_leaders(bench, topic, SMALL, TURNS)

        def run(cores: Cores) -> Figures:
            found = bench.with_cpu(
                lambda: send_to_leaders(bench, files, cores, connections=6, depth=5)
            )
            per_s = found["answers"] / found["seconds"]
            return {"per_s": per_s, "cpu_us": found["cpu_s"] / found["all_answers"] * 1e6}

        yield run


def bulk(content: Content, depth: int) -> Load:
    """Large batches, two connections for each leader, in a new topic for each round."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        def run(cores: Cores) -> Figures:
            with bench.cluster.topic(2 * SIZE) as topic:
                files = requests_of_leaders(bench, topic, content, TURNS_OF_LARGE)
                # Dirty pages of the previous round must not slow this round down.
                os.sync()
                options = {"connections": 2, "depth": depth, "max_bytes": bench.max_bytes / SIZE}
                found = bench.with_cpu(lambda: send_to_leaders(bench, files, cores, **options))
            rate = found["sent_bytes"] / MB / found["seconds"]
            return {"mb_per_s": rate, "cpu_s_per_gb": found["cpu_s"] / (found["all_bytes"] / 1e9)}

        yield run

    return load


def transactions(producers: int) -> Load:
    """Each producer repeats a transaction of one message for each of three leaders."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        with bench.cluster.topic(SIZE) as topic:

            def run(cores: Cores) -> Figures:
                words = [f"--size={SMALL_VALUE}", "--linger-ms=0", f"--partitions={SIZE}"]
                many = f"--producers={producers}"
                found = bench.librdkafka("transactions", topic, cores, many, *words)
                cpu = found["cpu_s"] / found["transactions"] * 1e6
                return {"per_s": found["transactions_per_s"], "cpu_us": cpu} | found

            yield run

    return load


@contextmanager
def idle(bench: Bench) -> Iterator[Round]:
    """Nothing is sent. The cluster has many partitions."""
    with bench.cluster.topic(bench.partitions):

        def run(_: Cores) -> Figures:
            found = bench.with_cpu(_wait)
            return {"cpu_share": found["cpu_s"] / IDLE_S * 100}

        yield run


def _wait() -> Figures:
    time.sleep(IDLE_S)
    return {}


def requests_of_leaders(
    bench: Bench, topic: Topic, content: Content, turns: int
) -> dict[int, Path]:
    """Write the requests for each leader to a file. Return the files by port."""
    files = {}
    for address, led in topic.leaders().items():
        port = int(address.rpartition(":")[2])
        entries = [
            produce(topic.name, content.batches([partition]))
            for _ in range(turns)
            for partition in led
        ]
        path = bench.folder / f"{bench.cluster.name}-{port}.requests"
        files[port] = write_entries(path, entries)
    return files


def send_to_leaders(
    bench: Bench, files: Mapping[int, Path], cores: Cores, **options: float
) -> Figures:
    """Run a load generator for each leader. Return the sums of their figures, and the longest of
    their times."""
    words = {name.replace("_", "-"): value for name, value in options.items()}
    words = {"seconds": bench.seconds} | words
    with ThreadPoolExecutor(len(files)) as pool:
        running = [
            pool.submit(run_loadgen, "repeat", port, file, cores, words)
            for port, file in files.items()
        ]
        found = [figures.result() for figures in running]
    total = {name: sum(figures[name] for figures in found) for name in found[0]}
    return total | {"seconds": max(figures["seconds"] for figures in found)}


LOADS: Mapping[str, Load] = {
    # The loads with the most requests come first, because they warm a JVM up sooner.
    "small": small,
    "single": single,
    "offered": offered,
    "produce16k": bulk(OF_16_KB, depth=5),
    "produce1m": bulk(OF_1_MB, depth=2),
    "txn1": transactions(1),
    "txn16": transactions(MANY_PRODUCERS),
    "idle": idle,
}
