"""The two targets, the four clients, and what the scripts share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker import Oncelog
from tests.conformance.clients import Aiokafka, Client, Confluent, Java, KafkaPython
from tests.conformance.clients.interface import ANSWER_TIMEOUT_S
from tests.kafka.driver import JavaDriver
from tests.kafka.kafka import Kafka

CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "java")
# What a test waits for by itself, and the group's first rebalance, which a user may wait for.
QUICK = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """A broker under test: `data` is the folder of its log files."""

    name: str
    address: str
    data: Path


@pytest.fixture(scope="session", params=["oncelog", "kafka"])
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """oncelog, then Apache Kafka as the control: a script must pass on both."""
    if request.param == "kafka":
        kafka: Kafka = request.getfixturevalue("kafka")
        yield Target("kafka", kafka.address, kafka.data)
        return
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield Target("oncelog", broker.address, broker.data)


@pytest.fixture(scope="session")
def java_driver(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """One JVM with Kafka's client and tools for the whole session."""
    driver = JavaDriver(tmp_path_factory.mktemp("java"))
    yield driver
    driver.close()


@pytest.fixture(scope="session")
def python_clients() -> dict[str, Client]:
    """The three clients that need no JVM; aiokafka first: its start waits for the whole group."""
    clients: tuple[Client, ...] = (Aiokafka(), Confluent(), KafkaPython())
    return {client.name: client for client in clients}


@pytest.fixture(scope="session")
def clients(python_clients: dict[str, Client], java_driver: JavaDriver) -> dict[str, Client]:
    """All four clients by name."""
    return {**python_clients, Java.name: Java(java_driver)}


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest, python_clients: dict[str, Client]) -> Client:
    """One of the clients, by an indirect parameter or as one of all."""
    if request.param == Java.name:
        return Java(request.getfixturevalue("java_driver"))
    return python_clients[request.param]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `client` runs with each of them."""
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", CLIENTS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def admin(target: Target) -> Any:
    """librdkafka's admin client of the target."""
    return AdminClient({"bootstrap.servers": target.address, "log_level": 0})


@pytest.fixture
def name() -> str:
    """A name nobody used before: of a topic, a group or a transactional id."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(admin: Any, name: str) -> str:
    """A new topic of three partitions."""
    create_topic(admin, name, partitions=3)
    return name


def create_topic(
    admin: Any, name: str, *, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Create a topic and wait for the answer."""
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    admin.create_topics([new], operation_timeout=ANSWER_TIMEOUT_S)[name].result()
