"""Markers to another broker, over a real connection. The test broker sends them to its own
listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from oncelog_server.broker import Broker
from oncelog_server.clock import SystemClock
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import BrokerLink, BrokerLinks, OnResponse
from oncelog_server.links.markers import RemoteLeader, RemoteMarkers, marker_requests
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.marker_delivery import ImageLeaders
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.harness.waiting import turns_until
from tests.server.log.driver import NOW_MS
from tests.server.transaction.world import transactional_batch

DEADLINE_S = 60
TOPIC = [TopicPartition("topic", index) for index in range(3)]
PRODUCER_ID = 7
CODES = dict[TopicPartition, ErrorCode]


def work(
    committed: bool = True,
    producer_epoch: int = 1,
    coordinator_epoch: int = 0,
    producer_id: int = PRODUCER_ID,
) -> MarkerWork:
    return MarkerWork(
        "t", producer_id, producer_epoch, committed, coordinator_epoch, 2, tuple(TOPIC)
    )


@pytest.fixture
def broker(other_broker: Broker) -> Broker:
    """Return a broker that has assigned PRODUCER_ID. It refuses markers with other ids."""
    while other_broker.services.producer_ids.take() < PRODUCER_ID:
        pass
    return other_broker


@pytest.fixture
async def links(broker: Broker) -> AsyncIterator[BrokerLinks]:
    """Yield links to every broker of the cluster. Its only broker stands for another broker."""
    links = BrokerLinks(lambda: broker.metadata.image, "PLAINTEXT", "broker-99-markers")
    yield links
    links.close()


@pytest.fixture
def markers(links: BrokerLinks) -> RemoteMarkers:
    return RemoteMarkers(links)


async def answered(link: RemoteLeader, what: MarkerWork, partitions: list[TopicPartition]) -> CODES:
    codes: CODES = {}
    link.send(what, partitions, codes.__setitem__)
    await turns_until(lambda: len(codes) == len(partitions))
    return codes


def link_to(markers: RemoteMarkers, broker_id: int = 1) -> RemoteLeader:
    link = markers.sender(broker_id)
    assert isinstance(link, RemoteLeader)
    return link


def ends(broker: Broker) -> list[int]:
    return [broker.partitions.require(*name).log_end_offset for name in TOPIC]


def stable(broker: Broker) -> list[int]:
    return [broker.partitions.require(*name).last_stable_offset for name in TOPIC]


def write(broker: Broker, producer: tuple[int, int], *partitions: TopicPartition) -> None:
    for name in partitions:
        data = transactional_batch(producer, 0, b"v", NOW_MS)
        broker.partitions.require(*name).append(data, now_ms=NOW_MS)


# --- through its own listener


async def test_markers_arrive_and_readers_get_the_records(
    broker: Broker, markers: RemoteMarkers
) -> None:
    write(broker, (7, 0), *TOPIC)
    assert stable(broker) == [0, 0, 0]
    codes = await answered(link_to(markers), work(), TOPIC)
    assert codes == dict.fromkeys(TOPIC, ErrorCode.NONE)
    assert stable(broker) == ends(broker) == [2, 2, 2]


async def test_an_abort_marker_aborts_at_the_other_broker(
    broker: Broker, markers: RemoteMarkers
) -> None:
    write(broker, (7, 0), TOPIC[0])
    await answered(link_to(markers), work(committed=False), TOPIC[:1])
    (row,) = broker.partitions.require(*TOPIC[0])._log.aborted_transactions(0, 10)
    assert (row.producer_id, row.first_offset) == (7, 0)


async def test_every_partition_has_its_own_error_code(
    broker: Broker, markers: RemoteMarkers
) -> None:
    write(broker, (7, 3), TOPIC[0])
    unknown = TopicPartition("unknown", 0)
    codes = await answered(link_to(markers), work(), [TOPIC[0], unknown, TOPIC[1]])
    assert codes == {
        TOPIC[0]: ErrorCode.INVALID_PRODUCER_EPOCH,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        TOPIC[1]: ErrorCode.NONE,
    }


async def test_Z13_a_replaced_coordinator_gets_a_fencing_error(
    broker: Broker, markers: RemoteMarkers
) -> None:
    link = link_to(markers)
    await answered(link, work(coordinator_epoch=5), TOPIC[:1])
    codes = await answered(link, work(coordinator_epoch=4), TOPIC[:1])
    assert codes == {TOPIC[0]: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert ends(broker)[0] == 1


async def test_many_markers_at_once_all_get_a_response(
    broker: Broker, markers: RemoteMarkers
) -> None:
    link = link_to(markers)
    settled: list[tuple[TopicPartition, ErrorCode]] = []
    for _ in range(50):
        link.send(work(), TOPIC, lambda *answer: settled.append(answer))
    await turns_until(lambda: len(settled) == 150)
    assert {code for _, code in settled} == {ErrorCode.NONE}


async def test_a_whole_transaction_with_leaders_on_another_broker(
    broker: Broker, markers: RemoteMarkers
) -> None:
    """The coordinator has the id of another broker, so it sends its markers to this broker."""
    ids = iter(range(7, 100))
    clock = SystemClock()
    coordinator = TransactionCoordinator(
        partition_count=lambda: 1,
        leaders=ImageLeaders(99, broker.metadata.follower, link_to(markers), markers.sender),
        new_producer_id=lambda principal: next(ids),
        timers=LoopTimers(asyncio.get_running_loop()),
        wall_ms=clock.now_ms,
        monotonic_ms=clock.monotonic_ms,
        max_timeout_ms=900_000,
    )
    broker.transactions.resign(0)
    coordinator.lead(broker.partitions.require(TRANSACTION_STATE, 0))
    coordinator.init_producer_id(InitProducerId("t", 60_000))
    coordinator.add_partitions(AddPartitions("t", 7, 0, frozenset(TOPIC), 2))
    write(broker, (7, 0), *TOPIC)
    answer = coordinator.end_txn(EndTxn("t", 7, 0, True, True))
    assert isinstance(answer, Deferred)
    live = coordinator.owner("t")[1].transactions["t"]
    assert live.metadata.state is State.PREPARE_COMMIT
    await turns_until(lambda: answer.done)
    assert answer.value == TransactionResult(ErrorCode.NONE, 7, 1)
    await turns_until(lambda: live.metadata.state is State.COMPLETE_COMMIT)
    assert stable(broker) == ends(broker) == [2, 2, 2]


# --- failures of the other broker


@pytest.mark.parametrize("what_happens", ["breaks off", "responds to fewer partitions"])
async def test_a_marker_without_a_response_is_retried_or_fails(what_happens: str) -> None:
    """If no response comes, the other broker may have written the marker, so the coordinator sends
    it again. If a response lacks a partition, the other broker has a defect."""
    link = UnsentLink()
    codes: CODES = {}
    leader_over(link).send(work(), TOPIC, codes.__setitem__)
    await turns_until(lambda: link.sent)
    if what_happens == "breaks off":
        link.answer(None)
        assert codes == dict.fromkeys(TOPIC, ErrorCode.NETWORK_EXCEPTION)
    else:
        link.answer(WriteTxnMarkersResponse([]))
        assert codes == dict.fromkeys(TOPIC, ErrorCode.UNKNOWN_SERVER_ERROR)


async def test_markers_that_gather_are_sent_in_one_request() -> None:
    """Only one request is in flight to a broker, as in Kafka's TransactionMarkerChannelManager."""
    link = UnsentLink()
    leader = leader_over(link)
    leader.send(work(), TOPIC[:1], lambda *answer: None)
    leader.send(work(), TOPIC[1:], lambda *answer: None)
    await turns_until(lambda: link.sent)
    leader.send(work(producer_id=8), TOPIC, lambda *answer: None)
    await asyncio.sleep(0)
    (first,) = link.sent
    (marker,) = first.markers
    (topic,) = marker.topics
    assert (topic.name, topic.partition_indexes) == ("topic", [0, 1, 2])
    link.answer(None)
    await turns_until(lambda: len(link.sent) == 2)
    assert [marker.producer_id for marker in link.sent[1].markers] == [8]


async def test_results_of_two_epochs_of_one_producer_are_not_confused() -> None:
    """A late marker of an old epoch is refused. That says nothing about the marker of the new
    epoch in the same request."""
    link = UnsentLink()
    leader = leader_over(link)
    old: CODES = {}
    new: CODES = {}
    leader.send(work(producer_epoch=1), TOPIC[:1], old.__setitem__)
    leader.send(work(producer_epoch=2), TOPIC[:1], new.__setitem__)
    await turns_until(lambda: link.sent)
    link.answer(
        WriteTxnMarkersResponse(
            [
                result_of(7, ErrorCode.INVALID_PRODUCER_EPOCH),
                result_of(7, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ]
        )
    )
    assert old == {TOPIC[0]: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert new == {TOPIC[0]: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def result_of(producer_id: int, code: ErrorCode) -> WritableTxnMarkerResult:
    row = WritableTxnMarkerPartitionResult(TOPIC[0].partition, code)
    return WritableTxnMarkerResult(
        producer_id, [WritableTxnMarkerTopicResult(TOPIC[0].topic, [row])]
    )


def leader_over(link: BrokerLink) -> RemoteLeader:
    return RemoteLeader(marker_requests(link))


class UnsentLink(BrokerLink):
    """A link that sends nothing, and keeps the requests with their callbacks."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 1, "test")
        self.sent: list[Any] = []
        self._answered: list[OnResponse] = []

    def send(self, request: object, version: int, answered: OnResponse) -> None:
        self.sent.append(request)
        self._answered.append(answered)

    def answer(self, response: Any | None) -> None:
        self._answered.pop(0)(response)


def test_a_broker_that_is_not_alive_has_no_sender() -> None:
    assert RemoteMarkers(BrokerLinks(ClusterImage, "PLAINTEXT", "test")).sender(5) is None
