"""Running brokers for the client: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio
import uvloop

from oncelog_client import Admin, KafkaError, NewTopic, Producer
from oncelog_protocol.errors import ErrorCode
from tests.harness.broker import Oncelog
from tests.harness.client_reading import eventually
from tests.harness.cluster import Cluster
from tests.harness.kafka.kafka import Kafka

# Exceptions that reached the exception handlers of this folder's event loops.
_UNRETRIEVED: Final[list[dict[str, Any]]] = []


def _watched_loop() -> asyncio.AbstractEventLoop:
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(lambda _, context: _UNRETRIEVED.append(context))
    return loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the event loop of the tests: uvloop, as in the broker, with a handler that records
    unretrieved exceptions."""
    return {"uvloop": _watched_loop}


@pytest.fixture(autouse=True, scope="module")
def _collections_are_short() -> None:
    """Freeze existing objects before a module's tests, so that the garbage collector skips them.

    A collection of all objects of the tests' process takes up to 0.3 s. The objects stay frozen, so
    that the next module's first collection is short, too.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _every_exception_is_retrieved() -> Iterator[None]:
    """Fail if a task, a future or a callback has an exception that no code has retrieved."""
    _UNRETRIEVED.clear()
    yield
    # A collected task reports its exception if no code has retrieved it.
    gc.collect()
    found = [*_UNRETRIEVED]
    _UNRETRIEVED.clear()
    assert not found, found


@pytest.fixture(scope="session", params=["oncelog", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a broker: oncelog, then Apache Kafka."""
    return address_of(request)


def address_of(request: pytest.FixtureRequest) -> str:
    """Return the address of the brokers that the parameter of a fixture names."""
    names = {"oncelog": "running_oncelog", "cluster": "running_cluster", "kafka": "kafka"}
    brokers: Oncelog | Cluster | Kafka = request.getfixturevalue(names[request.param])
    return brokers.address


@pytest.fixture
def name() -> str:
    """A new name for a topic, a group or a transactional id."""
    return f"c-{uuid.uuid4().hex[:12]}"


@pytest_asyncio.fixture
async def admin(bootstrap: str) -> AsyncIterator[Admin]:
    async with Admin(bootstrap) as client:
        yield client


@pytest_asyncio.fixture
async def topic(admin: Admin, name: str) -> str:
    """A new topic of two partitions."""
    return await _led_topic(admin, NewTopic(name, 2))


@pytest_asyncio.fixture
async def lasting_topic(admin: Admin, name: str) -> str:
    """A new topic that keeps records of any age. By default, a broker soon deletes old records."""
    return await _led_topic(admin, NewTopic(name, 2, configs={"retention.ms": "-1"}))


async def _led_topic(admin: Admin, new: NewTopic) -> str:
    """Create a topic, and wait until each partition has a leader, because Kafka responds before its
    brokers know the topic. Return the topic's name."""
    await admin.create_topics([new])
    await eventually(lambda: led(admin, new.name, new.num_partitions))
    return new.name


async def led(admin: Admin, topic: str, partitions: int) -> bool:
    """Return True if the topic has this number of partitions, all with a leader."""
    try:
        described = (await admin.describe_topics([topic]))[topic]
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
    return [row.leader is not None for row in described.partitions] == [True] * partitions


@pytest_asyncio.fixture
async def producer(bootstrap: str) -> AsyncIterator[Producer]:
    async with Producer(bootstrap) as client:
        yield client
