"""The image follows the store. When a call that changes metadata returns, the image has the
change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.cluster.store import MAX_OPERATIONS, Delete, Put, WriteOperation
from oncelog_server.cluster.topic_writes import topic_put
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.founding import random_uuid
from oncelog_server.metadata.sqlite_store import SqliteStore
from oncelog_server.refusal import Refused
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings
from tests.server.metadata.memory_store import MemoryStore

HERE = [Endpoint("PLAINTEXT", "localhost", 9092)]
DEADLINE_S = 30


def code_of(result: object) -> ErrorCode:
    assert isinstance(result, Refused)
    return result.code


async def test_the_first_broker_founds_the_cluster(metadata: ClusterMetadata) -> None:
    image = metadata.image
    assert len(image.cluster_id) == 22
    assert image.controller_id == 1
    assert image.features == {"transaction.version": 2}
    endpoint = image.brokers[1].endpoint("PLAINTEXT")
    assert endpoint is not None
    assert endpoint.port == 9092


async def test_a_created_topic_is_in_the_image_when_the_call_returns(
    metadata: ClusterMetadata,
) -> None:
    deltas: list[ImageDelta] = []
    metadata.subscribe(lambda old, new, delta: deltas.append(delta))
    first, second, third = await metadata.create_topics(
        [NewTopic("a", 3), NewTopic("a"), NewTopic("b b")]
    )
    assert isinstance(first, CreatedTopic)
    assert metadata.image.topic_by_id(first.id) is metadata.image.topics["a"]
    assert code_of(second) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code_of(third) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [len(delta.partitions) for delta in deltas] == [3]


async def test_many_topics_are_created_in_few_transactions(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    before = store.feed.revision
    wanted = [NewTopic(f"t{number}", 3) for number in range(96)]
    wanted[40:40] = [NewTopic("big", MAX_OPERATIONS), NewTopic("t5"), NewTopic("t 5")]
    made = await metadata.create_topics(wanted)
    refused = {
        place: response.code for place, response in enumerate(made) if isinstance(response, Refused)
    }
    assert refused == {
        41: ErrorCode.TOPIC_ALREADY_EXISTS,
        42: ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    sizes = {name: len(topic.partitions) for name, topic in metadata.image.topics.items()}
    assert sizes == {**{f"t{number}": 3 for number in range(96)}, "big": MAX_OPERATIONS}
    # A transaction has at most 128 records. The 96 topics have 4 records each, and the big topic
    # has 129.
    assert store.feed.revision - before <= 8


async def test_topics_of_one_request_are_checked_against_each_other(store: MemoryStore) -> None:
    metadata = ClusterMetadata(store, Settings(oncelog_max_partitions=5))
    await metadata.start(HERE)
    wanted = [NewTopic("a.b", 2), NewTopic("a_b", 2), NewTopic("c", 2), NewTopic("d", 2)]
    for validate_only in (True, False):
        _, second, third, fourth = await metadata.create_topics(wanted, validate_only=validate_only)
        assert code_of(second) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert isinstance(third, CreatedTopic)
        assert code_of(fourth) is ErrorCode.POLICY_VIOLATION
    assert list(metadata.image.topics) == ["a.b", "c"]
    await metadata.stop()


async def test_a_validation_changes_nothing(metadata: ClusterMetadata, store: MemoryStore) -> None:
    before = store.feed.revision
    (created,) = await metadata.create_topics([NewTopic("a", 2)], validate_only=True)
    assert isinstance(created, CreatedTopic)
    assert created.partitions == 2
    await metadata.create_partitions([NewPartitions("a", 2)], validate_only=True)
    assert store.feed.revision == before


async def test_other_work_runs_between_the_topics_of_a_validation(
    metadata: ClusterMetadata,
) -> None:
    """A request may name thousands of topics, and nothing is written."""
    await metadata.create_topics([NewTopic("a")])
    created: list[str] = []

    async def opened(topics: Iterable[str]) -> None:
        created.extend(topics)

    metadata.subscribe(lambda old, new, delta: None, created=opened)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    loop = asyncio.get_running_loop()
    loop.call_soon(turn)
    wanted = [NewPartitions("a", 2)] * 20
    assert await metadata.create_partitions(wanted, validate_only=True) == [None] * 20
    assert turns >= 19
    assert created == []


async def test_the_topics_of_a_request_for_partitions_count_together(
    metadata: ClusterMetadata,
) -> None:
    await metadata.create_topics([NewTopic("a"), NewTopic("b")])
    wanted = [NewPartitions("a", 5_002), NewPartitions("b", 5_001)]
    for refused in await metadata.create_partitions(wanted):
        assert code_of(refused) is ErrorCode.POLICY_VIOLATION
    assert [len(topic.partitions) for topic in metadata.image.topics.values()] == [1, 1]


async def test_a_topic_gets_partitions_and_settings_and_is_deleted(
    metadata: ClusterMetadata,
) -> None:
    await metadata.create_topics([NewTopic("a")])
    assert await metadata.create_partitions([NewPartitions("a", 2)]) == [None]
    await metadata.alter_topic_settings("a", lambda own: {**own, "retention.ms": "5"})
    topic = metadata.image.topics["a"]
    assert (len(topic.partitions), topic.settings) == (2, {"retention.ms": "5"})
    none, unknown = await metadata.delete_topics(["a", "b"])
    assert none is None
    assert code_of(unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not metadata.image.topics


async def test_a_change_that_lost_a_race_is_retried(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    await metadata.create_topics([NewTopic("a")])
    stale = metadata.image
    other = records.TopicRecord(stale.topics["a"].id_text, 1, {"flush.ms": "1"})
    await store.txn((), [Put(records.topic_key("a"), records.encode(other))])
    assert metadata.image is stale
    await metadata.alter_topic_settings("a", lambda own: {**own, "retention.ms": "5"})
    assert metadata.image.topics["a"].settings == {"flush.ms": "1", "retention.ms": "5"}


async def test_a_failed_write_of_the_store_is_refused_and_the_next_write_succeeds(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    store.fail_next = [OSError("disk full")]
    (result,) = await metadata.create_topics([NewTopic("a")])
    assert code_of(result) is ErrorCode.KAFKA_STORAGE_ERROR
    (result,) = await metadata.create_topics([NewTopic("a")])
    assert isinstance(result, CreatedTopic)


async def test_a_failing_subscriber_does_not_stop_the_others(metadata: ClusterMetadata) -> None:
    seen: list[int] = []

    def fails(old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        raise RuntimeError("cannot follow")

    metadata.subscribe(fails)
    metadata.subscribe(lambda old, new, delta: seen.append(new.revision))
    with structlog.testing.capture_logs() as logged:
        await metadata.create_topics([NewTopic("a")])
    assert seen == [metadata.image.revision]
    (event,) = logged
    assert (event["log_level"], event["revision"]) == ("error", metadata.image.revision)


async def test_a_malformed_record_fails_all_waiting_calls(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    creating = asyncio.gather(*(metadata.create_topics([NewTopic(f"t{n}")]) for n in range(3)))
    await store.txn((), [Put("topics/broken", b"?")])
    async with asyncio.timeout(DEADLINE_S):
        results = await creating
    assert code_of(results[-1][0]) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_broker_with_a_registered_id_cannot_join(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    second = ClusterMetadata(store, Settings())
    with pytest.raises(OSError, match="id 1 is registered already at localhost:9092"):
        await second.start(HERE)
    third = ClusterMetadata(store, Settings(node_id=3))
    await third.start(HERE)
    assert third.image.cluster_id == metadata.image.cluster_id
    assert third.image.controller_id == 1
    seen = asyncio.Event()
    metadata.subscribe(lambda old, new, delta: seen.set() if delta.topics_created else None)
    await third.create_topics([NewTopic("both", 2, 2)])
    await asyncio.wait_for(seen.wait(), DEADLINE_S)
    assert metadata.image.topics["both"] == third.image.topics["both"]


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"

    async def run(work: Callable[[ClusterMetadata], object]) -> ClusterImage:
        metadata = ClusterMetadata(await SqliteStore.open(path), Settings())
        await metadata.start(HERE, cluster_id="4L6g3nShT-eMCtK--X86sw")
        result = work(metadata)
        if asyncio.iscoroutine(result):
            await result
        await metadata.stop()
        return metadata.image

    first = await run(lambda metadata: metadata.create_topics([NewTopic("a", 300)]))
    second = await run(lambda metadata: None)
    assert first.cluster_id == second.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert second.topics["a"].id == first.topics["a"].id
    assert {
        (partition.leader, partition.leader_epoch) for partition in first.topics["a"].partitions
    } == {(1, 0)}
    assert {
        (partition.leader, partition.leader_epoch) for partition in second.topics["a"].partitions
    } == {(1, 1)}
    assert second.brokers[1].epoch > first.brokers[1].epoch


async def test_a_half_created_topic_is_removed_at_start(store: MemoryStore) -> None:
    orphan = records.partition_key(uuid_to_string(b"x" * 16), 0)
    record = records.encode(records.PartitionRecord((1,), (1,), 1, 0))
    await store.txn((), [Put(orphan, record)])
    metadata = ClusterMetadata(store, Settings())
    await metadata.start(HERE)
    assert orphan not in store.entries
    await metadata.stop()


def test_random_ids_never_look_like_command_line_options() -> None:
    texts = {uuid_to_string(random_uuid()) for _ in range(500)}
    assert len(texts) == 500
    assert not any(text.startswith("-") for text in texts)


async def test_an_image_too_far_behind_the_store_is_read_again() -> None:
    store = MemoryStore(kept=2)
    metadata = ClusterMetadata(store, Settings())
    await metadata.start(HERE)
    await metadata.create_topics([NewTopic("gone"), NewTopic("kept")])
    deltas: list[ImageDelta] = []
    metadata.subscribe(lambda old, new, delta: deltas.append(delta))
    kept = metadata.image.topics["kept"]
    operations: list[WriteOperation] = [Put("elsewhere", b"%d" % number) for number in range(5)]
    operations.insert(0, Delete(records.topic_key("gone")))
    operations.append(topic_put(kept, settings={"flush.ms": "1"}))
    # The transactions leave no turn of the loop in which the watch could follow.
    for operation in operations:
        store.apply([operation])
    await metadata.create_topics([NewTopic("new")])
    assert set(metadata.image.topics) == {"kept", "new"}
    assert [topic.name for delta in deltas for topic in delta.topics_deleted] == ["gone"]
    assert [topic.name for delta in deltas for topic in delta.settings_changed] == ["kept"]
    await metadata.stop()
