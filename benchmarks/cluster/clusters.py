"""The clusters of a run. All have their default settings, apart from `SETTINGS`, and have folders
on the same disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from benchmarks import machine
from benchmarks.bench import Cores
from benchmarks.cluster.topics import Topic, created_topic
from benchmarks.targets import JVM_OPTIONS, KAFKA, ONCELOG
from tests.harness.broker import Oncelog
from tests.harness.cluster import Cluster as OncelogBrokers
from tests.harness.etcd import Etcd
from tests.harness.kafka.cluster import KafkaCluster
from tests.harness.kafka.kafka import Kafka
from tests.harness.processes import children, command

SIZE: Final = 3
# A word in the command of the exit monitor, a small process that each broker with etcd starts.
EXIT_MONITOR: Final = "oncelog_server.exit_monitor.child"
SESSION: Final = "broker.session.timeout.ms"
HEARTBEAT: Final = "broker.heartbeat.interval.ms"

SETTINGS: Final = {
    # The loads create and delete many topics, which soon leave the disk with this delay.
    "log.segment.delete.delay.ms": "1000",
    "num.replica.fetchers": "1",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.min.bytes": "1",
    SESSION: "9000",
    HEARTBEAT: "2000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}


# The defaults of the settings that the harness changes for tests.
_DEFAULTS: Final = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "group.min.session.timeout.ms": "6000",
}


class Cluster:
    """A cluster, and how its processes are started and ended. `others` are its further processes:
    the members of etcd."""

    def __init__(self, name: str, brokers: Mapping[int, Oncelog | Kafka], cores: Cores) -> None:
        self.name = name
        self.brokers = brokers
        self.cores = cores
        self.others: list[int] = []
        self._topics = 0

    @property
    def address(self) -> str:
        """Return the bootstrap servers: all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def pids(self) -> list[int]:
        """Return the processes that run: the brokers, their exit monitors, and `others`."""
        brokers = [broker.pid for broker in self.brokers.values()]
        started = chain.from_iterable(map(children, brokers))
        monitors = [child for child in started if EXIT_MONITOR in command(child)]
        return [*brokers, *monitors, *self.others]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes so far. No process may end between two calls that
        are compared."""
        return sum(map(machine.cpu_seconds, self.pids))

    def resident_bytes(self) -> int:
        """Return the resident memory of all processes."""
        return sum(map(machine.resident_bytes, self.pids))

    def pin(self, cores: Cores) -> None:
        """Move all processes to these cores."""
        self.cores = cores
        for pid in self.pids:
            machine.pin(pid, cores)

    def restart(self, broker_id: int) -> None:
        """Start a broker that has ended, on its cores."""
        with machine.on_cores(self.cores):
            self.brokers[broker_id].start()

    @contextmanager
    def topic(self, partitions: int) -> Iterator[Topic]:
        """Create a topic with three replicas of each partition and its leaders in turn. Delete the
        topic at the end."""
        self._topics += 1
        with created_topic(self.address, f"bench-{self._topics:05}", partitions) as topic:
            yield topic


@contextmanager
def oncelog(
    folder: Path, cores: Cores, settings: Mapping[str, str], members: int
) -> Iterator[Cluster]:
    """Start three brokers with an etcd of this many members, which syncs its files."""
    with machine.on_cores(cores), Etcd(folder / "etcd", members, durable=True) as etcd:
        brokers = OncelogBrokers(
            folder / ONCELOG, etcd, SIZE, {**_DEFAULTS, **SETTINGS, **settings}
        )
        with brokers:
            cluster = Cluster(ONCELOG, brokers.brokers, cores)
            cluster.others = [member.pid for member in etcd.members]
            yield cluster


@contextmanager
def kafka(folder: Path, cores: Cores, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Start three nodes of Apache Kafka. Raises KafkaUnavailable without Java or Kafka's jars."""
    nodes = KafkaCluster(folder / KAFKA, SIZE, SETTINGS | dict(settings), JVM_OPTIONS)
    try:
        with machine.on_cores(cores):
            nodes.start()
        yield Cluster(KAFKA, nodes.nodes, cores)
    finally:
        for node in nodes.nodes.values():
            node.kill()
