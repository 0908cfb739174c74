"""Partitions are added to transactions at the coordinator on another broker, over a real
connection. The test broker asks its own listener."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.codecs import decoder, encoder
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from oncelog_server.broker import Broker
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import BrokerLink, BrokerLinks, OnResponse
from oncelog_server.links.partition_adding import UNREACHABLE, RemoteAdding
from oncelog_server.request_limits import max_elements
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


async def test_a_burst_of_transactions_with_many_partitions_is_served(
    broker: Broker, adding: RemoteAdding
) -> None:
    """After a controlled stop of a broker, hundreds of producers send their first batches to other
    leaders at once. All their partitions in one request would be more array elements than a broker
    accepts, which would close the link and fail all the transactions."""
    (created,) = await broker.metadata.create_topics([NewTopic("wide", 20, 1)])
    assert isinstance(created, CreatedTopic)
    partitions = frozenset(TopicPartition("wide", index) for index in range(20))
    commands = [
        AddPartitions(f"t{number}", *producer(broker, f"t{number}"), partitions, 2)
        for number in range(500)
    ]
    sent = [adding.add(BROKER_ID, command) for command in commands]
    codes = Counter([(await result(response)).code for response in sent])
    assert codes == {ErrorCode.NONE: 500}


class Coordinator(BrokerLinks):
    """The links to a coordinator that decodes requests as a broker does. It responds with a code to
    each partition; `refused` are the partitions with an error."""

    def __init__(self, refused: frozenset[TopicPartition] = frozenset()) -> None:
        super().__init__(ClusterImage, "PLAINTEXT", "test")
        self._refused = refused
        self._link = BrokerLink("127.0.0.1", 1, "test")
        self._link.send = self._send  # type: ignore[method-assign]
        self.served: list[set[TopicPartition]] = []

    def to(self, broker_id: int) -> BrokerLink:
        return self._link

    def _send(self, request: object, version: int, answered: OnResponse) -> None:
        assert isinstance(request, AddPartitionsToTxnRequest)
        parts: list[bytes] = []
        encoder(type(request), version)(request, parts.append)
        limit = max_elements(ApiKey.ADD_PARTITIONS_TO_TXN, 0)
        found, _ = decoder(AddPartitionsToTxnRequest, version)(b"".join(parts), 0, limit)
        (transaction,) = found.transactions
        self.served.append(
            {TopicPartition(t.name, index) for t in transaction.topics for index in t.partitions}
        )
        results = [
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(index, self._code(topic.name, index))
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ]
        result = AddPartitionsToTxnResult(transaction.transactional_id, results)
        response = AddPartitionsToTxnResponse(results_by_transaction=[result])
        asyncio.get_running_loop().call_soon(answered, response)

    def _code(self, topic: str, index: int) -> int:
        if TopicPartition(topic, index) in self._refused:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE


@pytest.mark.parametrize(
    "partitions",
    [
        frozenset(TopicPartition("wide", index) for index in range(10_000)),
        frozenset(TopicPartition(f"topic-{number}", 0) for number in range(10_000)),
    ],
    ids=["one topic", "as many topics"],
)
async def test_a_transaction_with_ten_thousand_partitions_is_divided(
    partitions: frozenset[TopicPartition],
) -> None:
    coordinator = Coordinator()
    sent = RemoteAdding(coordinator).add(BROKER_ID, AddPartitions("t", 7, 0, partitions, 2))
    assert (await result(sent)).code is ErrorCode.NONE
    assert sum(map(len, coordinator.served)) == len(partitions), "each partition is sent once"
    assert set().union(*coordinator.served) == partitions


async def test_a_refused_part_ends_a_divided_transaction() -> None:
    partitions = frozenset(TopicPartition("wide", index) for index in range(10_000))
    coordinator = Coordinator(frozenset({TopicPartition("wide", 0)}))
    sent = RemoteAdding(coordinator).add(BROKER_ID, AddPartitions("t", 7, 0, partitions, 2))
    assert (await result(sent)).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(coordinator.served) == 1


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
