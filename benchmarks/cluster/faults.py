"""The loads that end a broker. Each round ends one broker, and the cluster is whole again after the
round."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from benchmarks.bench import MB, SMALL_VALUE, Cores, Figures, Round
from benchmarks.cluster.clusters import SIZE, Cluster
from benchmarks.cluster.loads import Bench, Load, requests_of_leaders, send_to_leaders
from benchmarks.loadgen import run_load
from benchmarks.rings import OF_1_MB

CONNECT_S: Final = 2.0
# The client's time for a lost session: 9 s, the fail-over and the next message.
KILLED_S: Final = 20.0
STOPPED_S: Final = 10.0
TURNS_OF_LARGE: Final = 8


def kill(cluster: Cluster, broker_id: int) -> None:
    cluster.brokers[broker_id].kill()


def stop(cluster: Cluster, broker_id: int) -> None:
    cluster.brokers[broker_id].stop()


def longest_gap(end: Callable[[Cluster, int], None], seconds: float) -> Load:
    """librdkafka produces one message at a time while the leader ends. The figure is the longest
    time between two confirmations."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        with bench.cluster.topic(SIZE) as topic:
            command = [sys.executable, "-m", "benchmarks.rdload", "gap", bench.cluster.address]
            command += [topic.name, f"--seconds={seconds}", f"--size={SMALL_VALUE}"]
            command += ["--linger-ms=0"]

            def run(cores: Cores) -> Figures:
                leader = topic.leader_of(0)
                with ThreadPoolExecutor(1) as pool:
                    client = pool.submit(run_load, command, cores)
                    time.sleep(CONNECT_S)
                    end(bench.cluster, leader)
                    found = client.result()
                bench.cluster.restart(leader)
                topic.await_in_sync()
                return {"gap_ms": found["longest_gap_ms"]}

            yield run

    return load


@contextmanager
def elect(bench: Bench) -> Iterator[Round]:
    """A broker that leads a third of many partitions is killed. The figure is the time until every
    partition has a leader that responds."""
    with bench.cluster.topic(bench.partitions) as topic:

        def run(_: Cores) -> Figures:
            leader = topic.leader_of(0)
            begin = time.monotonic()
            bench.cluster.brokers[leader].kill()
            topic.await_served()
            took = time.monotonic() - begin
            bench.cluster.restart(leader)
            topic.await_in_sync()
            return {"served_ms": took * 1000}

        yield run


@contextmanager
def catch_up(bench: Bench) -> Iterator[Round]:
    """A broker was stopped while large batches were written. The figure is the rate at which it
    gets them after its start."""

    def run(cores: Cores) -> Figures:
        with bench.cluster.topic(2 * SIZE) as topic:
            behind = SIZE
            bench.cluster.brokers[behind].stop()
            topic.await_served()
            files = requests_of_leaders(bench, topic, OF_1_MB, TURNS_OF_LARGE)
            limit = bench.max_bytes / len(files)
            # The whole of `max_bytes` is written, however long it takes.
            sent = send_to_leaders(
                bench, files, cores, connections=2, depth=2, max_bytes=limit, seconds=120
            )
            bench.cluster.restart(behind)
            begin = time.monotonic()
            topic.await_in_sync()
            took = time.monotonic() - begin
        return {"mb_per_s": sent["all_bytes"] / MB / took}

    yield run


FAULTS: Mapping[str, Load] = {
    "kill": longest_gap(kill, KILLED_S),
    "stop": longest_gap(stop, STOPPED_S),
    "elect": elect,
    "catchup": catch_up,
}
SHORT_SESSION: Mapping[str, Load] = {"kill2s": longest_gap(kill, KILLED_S)}
"""The loads of clusters with a session of 2 s."""
