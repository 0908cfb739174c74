"""A topic is deleted and created again by another broker. From then on, no request reads or writes
the log of the deleted topic, even while the changes of this broker's partitions wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.types import uuid_to_string
from oncelog_server.broker import Broker
from oncelog_server.cluster import records
from oncelog_server.cluster.records import PartitionRecord, TopicRecord
from oncelog_server.cluster.store import Delete, Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import (
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import IN_ROTATION, Steps
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import ask
from tests.server.hosting.test_kept_revision import Disk
from tests.server.hosting.test_replica_manager import directories
from tests.server.log.driver import NOW_MS, batch
from tests.server.metadata.brokers import until
from tests.server.metadata.memory_store import MemoryStore
from tests.server.test_cluster_start import started, store

NAME: Final = TopicPartition("t", 0)
NOT_HERE_YET: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_IDS: Final = count(50)

# Sends a request for partition 0 of the topic, with this id and in this version.
Ask = Callable[[Broker, bytes, int], Any]


@contextmanager
def delayed(broker: Broker, disk: Disk | None) -> Iterator[None]:
    """Delay the changes of a broker's partitions: long work of other requests has all slices, or
    the disk holds the sync of the revision."""
    is_over = False

    def long_work() -> Steps[None]:
        while not is_over:
            yield

    if disk is None:
        for _ in range(IN_ROTATION):
            broker.services.slices.queue(long_work())
    else:
        disk.holds = True
    try:
        yield
    finally:
        is_over = True
        if disk is not None:
            disk.go_on()


@pytest.fixture(params=["busy slices", "the sync of the revision"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Disk | None:
    return None if request.param == "busy slices" else Disk(monkeypatch)


@asynccontextmanager
async def with_topic(path: Path) -> AsyncIterator[tuple[Broker, MemoryStore, Partition]]:
    """Yield a broker with the topic, its store, and the topic's partition with a record."""
    found = store()
    async with started(path, found) as broker:
        await broker.metadata.create_topics([NewTopic(NAME.topic, 1, 1)])
        partition = broker.partitions.require(*NAME)
        partition.append(batch(), now_ms=NOW_MS)
        yield broker, found, partition


async def recreate(
    broker: Broker, found: MemoryStore, partitions: int = 1, *, at_once: bool = True
) -> bytes:
    """Delete the topic and create it with this broker as the leader, as another broker does. Return
    the new id. With `at_once`, this broker sees a single change, as after a compaction of the
    store."""
    topic_id = bytes([next(_IDS)] * 16)
    text = uuid_to_string(topic_id)
    epoch = broker.metadata.membership.broker_epoch
    record = records.encode(PartitionRecord((1,), (1,), 1, 0, isr_epochs=(epoch,)))
    topic = records.encode(TopicRecord(text, partitions, {}))
    puts = [Put(records.partition_key(text, index), record) for index in range(partitions)]
    if not at_once:
        await found.txn((), [Delete(records.topic_key(NAME.topic))])
    result = await found.txn((), [Put(records.topic_key(NAME.topic), topic), *puts])
    await broker.metadata.follower.reached(result.revision)
    return topic_id


def produce_to(broker: Broker, topic_id: bytes, version: int) -> Any:
    data = [PartitionProduceData(0, batch())]
    topics = [TopicProduceData(NAME.topic, topic_id=topic_id, partition_data=data)]
    return ask(produce, broker.services, ProduceRequest(None, -1, 1_000, topics), version)


def fetch_from(broker: Broker, topic_id: bytes, version: int) -> Any:
    wanted = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
    topics = [FetchTopic(NAME.topic, topic_id=topic_id, partitions=wanted)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
    return ask(fetch, broker.services, request, version)


def list_offsets_of(broker: Broker, topic_id: bytes, version: int) -> Any:
    topics = [ListOffsetsTopic(NAME.topic, [ListOffsetsPartition(0, timestamp=-1)])]
    return ask(list_offsets, broker.services, ListOffsetsRequest(topics=topics))


def epoch_end_of(broker: Broker, topic_id: bytes, version: int) -> Any:
    topics = [OffsetForLeaderTopic(NAME.topic, [OffsetForLeaderPartition(0)])]
    request = OffsetForLeaderEpochRequest(topics=topics)
    return ask(offset_for_leader_epoch, broker.services, request)


def delete_records_of(broker: Broker, topic_id: bytes, version: int) -> Any:
    topics = [DeleteRecordsTopic(NAME.topic, [DeleteRecordsPartition(0, 1)])]
    return ask(delete_records, broker.services, DeleteRecordsRequest(topics))


def codes_in(response: Any) -> Iterator[int]:
    """Yield the error codes of the partitions in a response of any API."""
    for topic in getattr(response, "responses", None) or response.topics:
        for attribute in ("partition_responses", "partitions"):
            yield from (row.error_code for row in getattr(topic, attribute, ()))


@pytest.mark.parametrize(
    ("ask_broker", "version"),
    [
        (produce_to, 13),
        (produce_to, 12),
        (fetch_from, 17),
        (fetch_from, 12),
        (list_offsets_of, 0),
        (epoch_end_of, 0),
        (delete_records_of, 0),
    ],
)
async def test_no_request_reaches_the_log_of_the_deleted_topic(
    tmp_path: Path, disk: Disk | None, ask_broker: Ask, version: int
) -> None:
    async with with_topic(tmp_path) as (broker, found, deleted):
        # DeleteRecords is served in slices too, after the changes of the partitions.
        waits = ask_broker is delete_records_of and disk is None
        with delayed(broker, disk):
            topic_id = await recreate(broker, found, at_once=disk is not None)
            assert broker.metadata.image.topic_name(topic_id) == NAME.topic
            response = asyncio.ensure_future(ask_broker(broker, topic_id, version))
            if not waits:
                assert list(codes_in(await response)) == [NOT_HERE_YET]
            assert (deleted.log_start_offset, deleted.log_end_offset) == (0, 1)
        await response
        assert (deleted.log_start_offset, deleted.log_end_offset) == (0, 1)
        await broker._replica_manager.settled([NAME.topic])
        opened = broker.partitions.require(*NAME)
        assert (opened.topic_id, opened.log_end_offset) == (topic_id, 0)
        assert list(codes_in(await ask_broker(broker, topic_id, version))) != [NOT_HERE_YET]


@pytest.mark.parametrize(("ask_broker", "version"), [(produce_to, 12), (fetch_from, 12)])
async def test_a_broker_that_stops_serves_no_deleted_topic(
    tmp_path: Path, ask_broker: Ask, version: int
) -> None:
    """During a stop, the changes of the partitions are left to the next start."""
    async with with_topic(tmp_path) as (broker, found, deleted):
        broker._replica_manager.stop()
        topic_id = await recreate(broker, found)
        response = await ask_broker(broker, topic_id, version)
        assert list(codes_in(response)) == [NOT_HERE_YET]
        assert deleted.log_end_offset == 1


async def test_requests_that_wait_for_the_deleted_topic_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of a Produce are appended and not committed when the topic is deleted."""
    async with with_topic(tmp_path) as (broker, found, deleted):
        settled: list[ErrorCode] = []
        deleted.when_committed(9, settled.append)
        wanted = [FetchPartition(0, fetch_offset=1, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic_id=deleted.topic_id, partitions=wanted)]
        request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
        fetching = asyncio.create_task(ask(fetch, broker.services, request))
        await until(lambda: bool(deleted.read_waiters))
        with delayed(broker, Disk(monkeypatch)):
            await recreate(broker, found)
            assert list(codes_in(await fetching)) == [ErrorCode.UNKNOWN_TOPIC_ID]
            assert settled == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(("first", "second", "third"), [(1, 1, 2), (3, 1, 3), (1, 3, 1)])
async def test_a_topic_that_is_created_three_times_has_its_own_logs(
    tmp_path: Path, disk: Disk | None, first: int, second: int, third: int
) -> None:
    """The second topic is deleted before this broker has removed the partitions of the first. Their
    queued removals used to be dropped with the changes of the second."""
    found = store()
    async with started(tmp_path, found) as broker:
        await broker.metadata.create_topics([NewTopic(NAME.topic, first, 1)])
        before = list(broker.partitions)
        for partition in before:
            partition.append(batch(), now_ms=NOW_MS)
        with delayed(broker, disk):
            await recreate(broker, found, second, at_once=disk is not None)
            topic_id = await recreate(broker, found, third, at_once=disk is not None)
            assert before[0].topic_id in broker._replica_manager.undropped()
        await broker._replica_manager.settled([NAME.topic])
        assert {partition.topic_id for partition in broker.partitions} == {topic_id}
        assert [partition.log_end_offset for partition in broker.partitions] == [0] * third
        kept = {name for name in directories(tmp_path, "t") if not name.endswith("-delete")}
        assert sorted(kept) == [f"t-{index}" for index in range(third)]
