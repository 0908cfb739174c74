"""Partitions are added to transactions at the coordinator on another broker, over a real
connection. The test broker asks its own listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.partition_adding import UNREACHABLE, RemoteAdding
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.results import TransactionResult
from tests.server.transaction.world import value_of

DEADLINE_S = 60
PARTITIONS = frozenset(TopicPartition("topic", index) for index in range(3))
BROKER_ID = 1


@pytest.fixture
def broker(other_broker: Broker) -> Broker:
    return other_broker


@pytest.fixture
async def adding(broker: Broker) -> AsyncIterator[RemoteAdding]:
    links = BrokerLinks(lambda: broker.metadata.image, "PLAINTEXT", "broker-99-partitions")
    yield RemoteAdding(links)
    links.close()


async def result(response: TransactionResult | Deferred[TransactionResult]) -> TransactionResult:
    async with asyncio.timeout(DEADLINE_S):
        if isinstance(response, Deferred):
            arrived = asyncio.Event()
            response.on_complete(lambda _: arrived.set())
            await arrived.wait()
    return value_of(response)


def producer(broker: Broker, name: str = "t") -> tuple[int, int]:
    found = value_of(broker.transactions.init_producer_id(InitProducerId(name, 60_000)))
    return found.producer_id, found.producer_epoch


async def test_the_coordinator_adds_the_partitions(broker: Broker, adding: RemoteAdding) -> None:
    command = AddPartitions("t", *producer(broker), PARTITIONS, 2)
    assert (await result(adding.add(BROKER_ID, command))).code is ErrorCode.NONE
    assert broker.transactions.find("t").metadata.partitions == PARTITIONS


async def test_a_verification_adds_nothing(broker: Broker, adding: RemoteAdding) -> None:
    command = AddPartitions("t", *producer(broker), PARTITIONS, 2, verify_only=True)
    found = await result(adding.add(BROKER_ID, command))
    assert found.code is ErrorCode.TRANSACTION_ABORTABLE
    assert not broker.transactions.find("t").metadata.partitions


async def test_transactions_that_gather_get_their_own_results(
    broker: Broker, adding: RemoteAdding
) -> None:
    good = AddPartitions("good", *producer(broker, "good"), PARTITIONS, 2)
    id_, epoch = producer(broker, "fenced")
    fenced = AddPartitions("fenced", id_, epoch - 1, PARTITIONS, 2)
    unknown = AddPartitions("t", 7, 0, frozenset({TopicPartition("unknown", 0), *PARTITIONS}), 2)
    sent = [adding.add(BROKER_ID, command) for command in (good, fenced, unknown)]
    codes = [(await result(response)).code for response in sent]
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_broker_that_does_not_coordinate_says_so(
    broker: Broker, adding: RemoteAdding
) -> None:
    command = AddPartitions("t", *producer(broker), PARTITIONS, 2)
    broker.transactions.resign(0)
    assert (await result(adding.add(BROKER_ID, command))).code is ErrorCode.NOT_COORDINATOR


async def test_a_broker_that_is_not_alive_is_not_available(adding: RemoteAdding) -> None:
    assert adding.add(5, AddPartitions("t", 7, 0, PARTITIONS, 2)) is UNREACHABLE


async def test_a_link_that_breaks_is_not_available(broker: Broker, adding: RemoteAdding) -> None:
    """The coordinator may have added the partitions. The producer retries either way."""
    command = AddPartitions("t", *producer(broker), PARTITIONS, 2)
    response = adding.add(BROKER_ID, command)
    await asyncio.sleep(0)
    adding._links.close()
    assert await result(response) is UNREACHABLE
