"""The two brokers under test, the clients, and the fixtures that the conformance tests share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from tests.conformance.clients import Aiokafka, Client, Confluent, Java, KafkaPython, Ours
from tests.conformance.clients.interface import ANSWER_TIMEOUT_S, Consumer, Producer
from tests.harness.broker import Oncelog
from tests.harness.hanging import VERIFICATION, turn_verification
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until

CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "oncelog-client", "java")
# For topics with records older than a week, which default retention may delete at any time.
KEPT = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class Target:
    """A broker under test. `data` is the directory of its log files."""

    name: str
    address: str
    data: Path


@pytest.fixture(scope="session", params=["oncelog", "kafka"])
def target(request: pytest.FixtureRequest) -> Target:
    """oncelog, then Apache Kafka as the control. A test must pass on both."""
    names = {"oncelog": "running_oncelog", "kafka": "kafka"}
    broker: Oncelog | Kafka = request.getfixturevalue(names[request.param])
    return Target(request.param, broker.address, broker.data)


@pytest.fixture(scope="session")
def java_driver(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """One JVM with Kafka's client and tools for the whole session."""
    driver = JavaDriver(tmp_path_factory.mktemp("java"))
    yield driver
    driver.close()


@dataclass(frozen=True, slots=True)
class Closing:
    """A client that closes all its producers and consumers, so that no test leaves sockets and
    threads behind."""

    client: Client
    opened: list[Producer | Consumer]

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def strategies(self) -> frozenset[str]:
        return self.client.strategies

    def producer(self, address: str, **settings: Any) -> Producer:
        self.opened.append(producer := self.client.producer(address, **settings))
        return producer

    def consumer(self, address: str, topic: str, **settings: Any) -> Consumer:
        self.opened.append(consumer := self.client.consumer(address, topic, **settings))
        return consumer


@pytest.fixture
def opened() -> Iterator[list[Producer | Consumer]]:
    """The producers and consumers of a test. They are closed after the test, even if the test
    closed them itself."""
    things: list[Producer | Consumer] = []
    yield things
    for thing in things:
        with suppress(Exception):
            thing.close()


@pytest.fixture(scope="session")
def all_python_clients() -> dict[str, Client]:
    """The clients that need no JVM. aiokafka comes first, because its start waits for the other
    members of its group, and the test does not poll these members meanwhile."""
    clients: tuple[Client, ...] = (Aiokafka(), Confluent(), KafkaPython(), Ours())
    return {client.name: client for client in clients}


@pytest.fixture
def python_clients(
    all_python_clients: dict[str, Client], opened: list[Producer | Consumer]
) -> dict[str, Client]:
    """The clients that need no JVM, by name."""
    return {name: Closing(client, opened) for name, client in all_python_clients.items()}


@pytest.fixture
def java(java_driver: JavaDriver, opened: list[Producer | Consumer]) -> Client:
    """Kafka's own client."""
    return Closing(Java(java_driver), opened)


@pytest.fixture
def clients(python_clients: dict[str, Client], java: Client) -> dict[str, Client]:
    """All clients by name."""
    return {**python_clients, java.name: java}


@pytest.fixture
def client(request: pytest.FixtureRequest, python_clients: dict[str, Client]) -> Client:
    """One client for each run of a test (see `pytest_generate_tests`)."""
    if request.param == Java.name:
        java: Client = request.getfixturevalue("java")
        return java
    return python_clients[request.param]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `client` once with each client."""
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", CLIENTS, indirect=True)


@pytest.fixture(scope="session")
def admin(target: Target) -> Any:
    """librdkafka's admin client, connected to the target."""
    return AdminClient({"bootstrap.servers": target.address, "log_level": 0})


@pytest.fixture
def name() -> str:
    """A new name for a topic, a group or a transactional id."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(admin: Any, name: str) -> str:
    """A new topic of three partitions."""
    create_topic(admin, name, partitions=3)
    return name


@pytest.fixture
def trusting(target: Target, admin: Any, name: str, tmp_path: Path) -> Iterator[Target]:
    """A broker that does not verify transactions. The fixture `name` names its topic."""
    if target.name == "kafka":
        turn_verification(admin, "false")
        create_topic(admin, name)
        yield target
        turn_verification(admin, None)
        return
    with Oncelog(tmp_path, {**QUICK, VERIFICATION: "false"}) as broker:
        own_admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        create_topic(own_admin, name)
        yield Target("oncelog", broker.address, broker.data)


@pytest.fixture
def wire(target: Target) -> Iterator[Wire]:
    """A plain connection for this test."""
    with Wire(target.address) as connection:
        yield connection


def create_topic(
    admin: Any, name: str, *, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Create a topic, and wait until its partitions have a leader that responds."""
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    admin.create_topics([new], operation_timeout=ANSWER_TIMEOUT_S)[name].result()
    ends = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}

    def led() -> bool:
        # librdkafka caches that the topic is unknown; a new request clears this entry
        admin.list_topics(name, timeout=ANSWER_TIMEOUT_S)
        answers = admin.list_offsets(ends, request_timeout=ANSWER_TIMEOUT_S).values()
        return all(answer.exception() is None for answer in answers)

    wait_until(led, f"the partitions of {name} have a leader that answers")
