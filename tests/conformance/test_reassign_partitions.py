"""Kafka's own kafka-reassign-partitions prints the same lines against two brokers of each kind."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import oncelog_client
from oncelog.testing.broker import QUICK
from oncelog_client import TopicPartition
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.etcd_fixtures import etcd_program, real_etcd
from tests.harness.kafka.compared import Printed, printed, run_ours
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.fixtures import QUIET
from tests.harness.kafka.kafka import Kafka
from tests.harness.kafka.second_node import SecondKafka
from tests.harness.waiting import wait_until

__all__ = ["etcd_program", "real_etcd"]

CALL_S = 30.0
TOPIC = "moved"
_PATH = re.compile(r'"/[^"]*"')
KEEPS = "--preserve-throttles"
SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Brokers 1 and 2. `address` is that of broker 1, `kill` kills broker 2."""

    name: str
    address: str
    kill: Callable[[], None]


@contextmanager
def kafka_pair(directory: Path) -> Iterator[Pair]:
    first = Kafka(directory / "first", QUICK | QUIET | SESSION)
    second = SecondKafka(directory / "second", first)
    with first, second:
        yield Pair("kafka", first.address, second.kill)


@contextmanager
def oncelog_pair(directory: Path, etcd: Etcd) -> Iterator[Pair]:
    settings = {**SESSION, "oncelog.etcd.prefix": "/reassign/", "min.insync.replicas": "1"}
    with Cluster(directory, etcd, 2, settings) as cluster:
        yield Pair("oncelog", cluster.brokers[1].address, cluster.brokers[2].kill)


@pytest.mark.usefixtures("kafka_jars")
def test_both_brokers_make_the_tool_print_the_same(
    tmp_path: Path, real_etcd: Etcd, java_driver: JavaDriver
) -> None:
    with (
        kafka_pair(tmp_path / "kafka") as kafka,
        oncelog_pair(tmp_path / "oncelog", real_etcd) as ours,
    ):
        theirs, found = (Story(pair, java_driver, tmp_path).tell() for pair in (kafka, ours))
    for step, lines in theirs.items():
        assert found[step] == lines, f"{step}\nKafka:   {lines}\noncelog: {found[step]}"
    assert found.keys() == theirs.keys()


class Story:
    """The steps of a test with one pair of brokers."""

    def __init__(self, pair: Pair, driver: JavaDriver, directory: Path) -> None:
        self._pair = pair
        self._driver = driver
        self._directory = directory
        self._steps: dict[str, object] = {}

    def tell(self) -> dict[str, object]:
        """Return what the tools print, by the name of the step."""
        verify, cancel = ("--verify", KEEPS), ("--cancel", KEEPS)
        self._create()
        self._step("nothing moves", "", "--list")
        topics = self._file("topics", {"version": 1, "topics": [{"topic": TOPIC}]})
        arguments = ("--topics-to-move-json-file", topics, "--broker-list", "2")
        self._step("a plan", "Proposed", "--generate", *arguments)
        away = self._plan("away", {0: [2]})
        self._step("away", "Successfully started", "--execute", *away)
        self._step("it has moved", "completed", *verify, *away)
        grown = self._plan("grown", {1: [1, 2], 2: [1]})
        self._step("two replicas", "Successfully started", "--execute", *grown)
        self._step("both in sync", "moved-1 is completed", *verify, *grown)
        self._step("no cancellation", "None of", *cancel, *away)
        for name, plan in (
            ("an unknown broker", {0: [9]}),
            ("no replicas", {0: []}),
            ("twice the same", {0: [1, 1]}),
            ("an unknown partition", {7: [1]}),
        ):
            self._step(name, "", "--execute", *self._plan("refused", plan))
        fewer = self._plan("fewer", {1: [1]})
        fixed = "--disallow-replication-factor-change"
        self._step("a fixed number", "is changed from 2 to 1", "--execute", fixed, *fewer)
        moving = self._plan("moving", {2: [2]})
        self._move_to_fenced()
        self._step("it is listed", "moved-2", "--list")
        self._step("it is in progress", "in progress", *verify, *moving)
        self._step("not twice", "Cannot execute", "--execute", *moving)
        self._describe()
        self._step("it ends", "Successfully", *cancel, *moving)
        self._step("it has ended", "rather than", *verify, *moving)
        self._step("nothing is left", "No partition", "--list")
        return self._steps

    def _create(self) -> None:
        admin = self._new_admin()
        wait_until(lambda: len(self._brokers()) == 2, "two brokers")
        topic = NewTopic(TOPIC, 3, replica_assignment=[[1], [1], [1]])
        admin.create_topics([topic])[TOPIC].result(CALL_S)

        def is_known() -> bool:
            found = admin.list_topics(TOPIC, timeout=CALL_S).topics[TOPIC]
            return len(found.partitions) == 3

        wait_until(is_known, "the topic is there")

    def _step(self, name: str, awaited: str, *arguments: str) -> None:
        """Run the tool until its output contains `awaited`. A broker of Kafka shows a change only
        after its response."""

        def run() -> bool:
            result = self._tool("reassign-partitions", *arguments)
            self._steps[name] = result
            return awaited in str(result)

        if arguments[0] in ("--verify", "--list"):
            wait_until(run, f"{self._pair.name}: {name}")
        else:
            assert run(), f"{self._pair.name}: {name}: {self._steps[name]}"

    def _move_to_fenced(self) -> None:
        """Begin a move to a broker that is not alive, so that the move stays in progress. The tool
        refuses such a move, and brokers do not."""
        self._pair.kill()
        wait_until(lambda: len(self._brokers()) == 1, "broker 2 is fenced")

        async def move() -> None:
            async with oncelog_client.Admin(self._pair.address) as admin:
                await admin.alter_partition_reassignments({TopicPartition(TOPIC, 2): [2]})

        asyncio.run(move())

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._pair.address, "log_level": 0})

    def _brokers(self) -> Collection[int]:
        # A client that knows of the killed broker would send requests to it until the timeout.
        brokers: Collection[int] = self._new_admin().list_topics(timeout=CALL_S).brokers
        return brokers

    def _describe(self) -> None:
        """Describe the topic with Kafka's tool and with ours."""
        described = ("--describe", "--topic", TOPIC)
        under = (*described, "--under-replicated-partitions")
        for name, arguments in (("described", described), ("under-replicated", under)):
            lines = _moving(self._tool("topics", *arguments))
            address = ("--bootstrap-server", self._pair.address)
            ours = printed(run_ours("kafka-topics", *address, *arguments), self._pair.address)
            assert _moving(ours) == lines
            self._steps[name] = lines
        assert "Adding Replicas: 2" in str(self._steps["described"])

    def _tool(self, name: str, *arguments: str) -> Printed:
        address = ("--bootstrap-server", self._pair.address)
        result = self._driver.tool(name, *address, *arguments, check=False)
        found = printed(result, self._pair.address)
        return found._replace(out=[_PATH.sub('"DIRECTORY"', line) for line in found.out])

    def _plan(self, name: str, replicas: Mapping[int, Sequence[int]]) -> tuple[str, str]:
        partitions = [
            {"topic": TOPIC, "partition": number, "replicas": brokers}
            for number, brokers in replicas.items()
        ]
        content = {"version": 1, "partitions": partitions}
        return "--reassignment-json-file", self._file(name, content)

    def _file(self, name: str, content: object) -> str:
        path = self._directory / f"{self._pair.name}-{name}.json"
        path.write_text(json.dumps(content))
        return str(path)


def _moving(result: Printed) -> list[str]:
    return [line for line in result.out if "Partition: 2" in line]
