"""`python -m benchmarks.failover`: the time of a fail-over by the clock of a client.

Three brokers and one etcd run on this machine. A producer of librdkafka with its defaults
(acks=all) sends a record every 10 ms to a partition with three replicas and min.insync.replicas=2.
The leader gets a signal. The figure is the time from the signal to the first acknowledgment of a
record that was sent after the signal. After SIGKILL the process is dead, but its host still
responds. After SIGSTOP the process is silent, so the fail-over begins with the end of its session.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from tests.cluster.reading import CALL_S, in_sync
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

TOPIC: Final = "measured"
PAUSE_S: Final = 0.01
# A producer with a silent leader waits for its socket.timeout.ms (60 s).
LIMIT_S: Final = 120.0
# A broker renews its lease at least four times in a session.
RENEWALS: Final = 4
SIGNALS: Final = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


@dataclass(frozen=True)
class FailOvers:
    """The fail-overs with one session. `times_s` are in their order."""

    session_s: float
    signal: str
    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def worst_s(self) -> float:
        return max(self.times_s)


class SteadyProducer:
    """A producer with a record every PAUSE_S, in a thread, as a context manager."""

    def __init__(self, address: str) -> None:
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0})
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady producer")
        # The first record that counts was sent after this time of the monotonic clock.
        self._since_s = 0.0
        self._acknowledged_s: float | None = None
        self._changed = threading.Condition()
        self.errors: list[str] = []

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join()

    def first_after(self, begin_s: float) -> float:
        """Return the time of the first acknowledgment of a record that is sent after `begin_s`.
        Raises TimeoutError."""
        with self._changed:
            self._since_s, self._acknowledged_s = begin_s, None
            if not self._changed.wait_for(lambda: self._acknowledged_s is not None, LIMIT_S):
                raise TimeoutError(f"no record was acknowledged in {LIMIT_S:.0f} s")
            assert self._acknowledged_s is not None
            return self._acknowledged_s

    def _run(self) -> None:
        while not self._stops.is_set():
            sent_s = time.monotonic()
            self._producer.produce(
                TOPIC,
                b"x" * 100,
                on_delivery=lambda error, message, sent_s=sent_s: self._delivered(error, sent_s),
            )
            self._producer.poll(PAUSE_S)
            self._stops.wait(max(0.0, sent_s + PAUSE_S - time.monotonic()))
        self._producer.flush(CALL_S)

    def _delivered(self, error: object, sent_s: float) -> None:
        now_s = time.monotonic()
        if error is not None:
            self.errors.append(str(error))
            return
        with self._changed:
            if self._acknowledged_s is None and sent_s > self._since_s:
                self._acknowledged_s = now_s
                self._changed.notify_all()


def measure(
    folder: Path, session_s: float, count: int, how: str, settings: Sequence[str]
) -> FailOvers:
    """Return the times of `count` fail-overs."""
    found: list[float] = []
    with (
        Etcd(folder) as etcd,
        Cluster(folder, etcd, settings=_settings(session_s, settings)) as cluster,
    ):
        admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(CALL_S)
        for _ in range(count):
            found.append(_one(cluster, admin, SIGNALS[how]))
            print(f"session {session_s:g} s, SIG{how}: {found[-1]:.2f} s", file=sys.stderr)
    return FailOvers(session_s, how, tuple(found))


def _settings(session_s: float, settings: Sequence[str]) -> dict[str, str]:
    session_ms = int(session_s * 1000)
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(min(2_000, session_ms // RENEWALS)),
        **dict(text.split("=", 1) for text in settings),
    }


def _one(cluster: Cluster, admin: AdminClient, how: signal.Signals) -> float:
    """Return the time of one fail-over. All replicas are in sync again afterwards."""
    leader = cluster.brokers[_leader(admin)]
    # Each fail-over has a new client. A client that has met a dead broker waits for up to
    # reconnect.backoff.max.ms (10 s) before it connects to that broker again, even if the broker
    # has become the leader.
    with SteadyProducer(cluster.address) as producer:
        producer.first_after(time.monotonic())
        # The random pause varies the phases of the client's timers and of the keepalives.
        time.sleep(1.0 + random.random())
        begin_s = time.monotonic()
        os.kill(leader.pid, how)
        took_s = producer.first_after(begin_s) - begin_s
    if producer.errors:
        print(f"errors of the application: {producer.errors[:3]}", file=sys.stderr)
    if how is signal.SIGSTOP:
        os.kill(leader.pid, signal.SIGCONT)
    else:
        leader.kill()
        leader.start()
    wait_until(lambda: in_sync(admin, TOPIC, 1), "all replicas are in sync", CALL_S)
    return took_s


def _leader(admin: AdminClient) -> int:
    return int(admin.list_topics(TOPIC, timeout=CALL_S).topics[TOPIC].partitions[0].leader)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__)
    add = parser.add_argument
    add("--sessions", type=float, nargs="+", default=[2.0, 9.0], help="in s, at least 2")
    add("--kills", type=int, default=10, help="the number of fail-overs with each session")
    add("--signal", choices=SIGNALS, default="KILL")
    add("--set", action="append", default=[], help="NAME=VALUE, for the brokers")
    add("--json", type=Path, help="a file for the result")
    args = parser.parse_args()
    if args.kills < 1:
        parser.error("--kills must be at least 1")
    rows: list[FailOvers] = []
    for session_s in args.sessions:
        with tempfile.TemporaryDirectory(prefix="oncelog-failover-") as folder:
            rows.append(measure(Path(folder), session_s, args.kills, args.signal, args.set))
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    table = Table("session s", "signal", "fail-overs", "median s", "worst s")
    for row in rows:
        figures = (f"{row.median_s:.2f}", f"{row.worst_s:.2f}")
        table.add_row(f"{row.session_s:g}", row.signal, str(len(row.times_s)), *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
