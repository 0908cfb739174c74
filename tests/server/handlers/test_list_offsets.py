"""ListOffsets never reveals what the reader may not see, and handles each partition separately."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import GeneratorType
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_server.handlers import list_offsets
from oncelog_server.handlers.list_offsets import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from oncelog_server.log.timestamps import STEP_RECORDS
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.slices import at_its_end
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import ask, broker, context
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition
from tests.server.storage.memory_files import MemoryFiles

READ_COMMITTED = 1


async def listed(isolation: int, *wanted: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Return (error, offset, leader epoch) for each (partition, timestamp). Partition 0 has a
    record, and a later record of an open transaction with a later timestamp."""
    found = partition(name=TopicPartition("orders", 0))
    found.become_leader(0, 4, (0,), (0,))
    found.append(batch(timestamp=NOW_MS), now_ms=NOW_MS)
    undecided = batch(
        timestamp=NOW_MS + 5,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    found.append(undecided, now_ms=NOW_MS + 5)
    partitions = [ListOffsetsPartition(index, timestamp=timestamp) for index, timestamp in wanted]
    request: Any = ListOffsetsRequest(
        isolation_level=isolation, topics=[ListOffsetsTopic("orders", partitions)]
    )
    async with broker() as services:
        services.partitions.add(found)
        response = await ask(list_offsets, replace(services), request)
    return [
        (partition.error_code, partition.offset, partition.leader_epoch)
        for partition in response.topics[0].partitions
    ]


@pytest.mark.parametrize(
    ("isolation", "timestamp", "expected"),
    [
        pytest.param(0, LATEST, (0, 2, 4), id="the high watermark"),
        pytest.param(0, EARLIEST_LOCAL, (0, 0, 4), id="the beginning, which is on local disk"),
        pytest.param(0, LATEST_TIERED, (0, -1, -1), id="nothing is in tiered storage"),
        pytest.param(
            0, EARLIEST_PENDING_UPLOAD, (0, -1, -1), id="nothing waits for tiered storage"
        ),
        pytest.param(READ_COMMITTED, LATEST, (0, 1, 4), id="the last stable offset"),
        pytest.param(0, MAX_TIMESTAMP, (0, 1, 4), id="the highest timestamp"),
        pytest.param(
            READ_COMMITTED,
            MAX_TIMESTAMP,
            (0, -1, -1),
            id="the record with the highest timestamp is undecided",
        ),
        pytest.param(
            READ_COMMITTED,
            NOW_MS + 5,
            (0, -1, -1),
            id="an undecided record is not found by its timestamp",
        ),
    ],
)
async def test_the_offset_found_is_below_the_readers_limit(
    isolation: int, timestamp: int, expected: tuple[int, int, int]
) -> None:
    assert await listed(isolation, (0, timestamp)) == [expected]


async def test_an_unknown_isolation_level_is_refused() -> None:
    assert await listed(2, (0, LATEST)) == [(ErrorCode.INVALID_REQUEST, -1, -1)]


async def test_a_partition_that_is_named_twice_affects_no_other_partition() -> None:
    twice = (ErrorCode.INVALID_REQUEST, -1, -1)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await listed(0, (1, LATEST), (0, LATEST), (1, 5)) == [twice, (0, 2, 4)]
    assert await listed(0, (1, LATEST), (0, LATEST)) == [unknown, (0, 2, 4)]


# --- a new leader that does not know yet which of its records are committed (KIP-207)

UNKNOWN = (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)


def elected() -> Partition:
    """Return a leader of epoch 4 with two records, one of them known to be committed."""
    found = partition(name=TopicPartition("orders", 0), isr=(0, 1), replicas=(0, 1))
    found.append(batch(timestamp=NOW_MS), now_ms=NOW_MS)
    found.append(batch(timestamp=NOW_MS + 5), now_ms=NOW_MS)
    found.replicas.record_fetch(1, 1, 2, NOW_MS)
    found.recompute_high_watermark()
    found.become_leader(0, 4, (0, 1), (0, 1))
    return found


async def asked(
    found: Partition, timestamp: int, version: int, replica_id: int = -1
) -> tuple[int, int, int]:
    wanted = [ListOffsetsPartition(0, timestamp=timestamp)]
    request: Any = ListOffsetsRequest(replica_id, topics=[ListOffsetsTopic("orders", wanted)])
    async with broker() as services:
        services.partitions.add(found)
        response = await ask(list_offsets, services, request, version)
    (row,) = response.topics[0].partitions
    return (row.error_code, row.offset, row.leader_epoch)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        pytest.param(LATEST, UNKNOWN, id="the end"),
        pytest.param(NOW_MS + 1, UNKNOWN, id="a record that may be committed"),
        pytest.param(NOW_MS + 6, UNKNOWN, id="no record"),
        pytest.param(MAX_TIMESTAMP, UNKNOWN, id="the highest timestamp"),
        pytest.param(NOW_MS, (0, 0, 0), id="a committed record"),
        pytest.param(EARLIEST_LOCAL, (0, 0, 0), id="the beginning"),
        pytest.param(LATEST_TIERED, (0, -1, -1), id="nothing is in tiered storage"),
    ],
)
async def test_b7_78_a_new_leader_does_not_return_an_end_that_may_grow(
    timestamp: int, expected: tuple[int, int, int]
) -> None:
    found = elected()
    assert await asked(found, timestamp, 11) == expected
    found.replicas.record_fetch(1, 2, 2, NOW_MS)
    found.recompute_high_watermark()
    assert (await asked(found, LATEST, 11))[:2] == (0, 2)


async def test_78_earlier_versions_get_a_code_that_they_know() -> None:
    assert (await asked(elected(), LATEST, 5))[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await asked(elected(), LATEST, 4))[0] == ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_follower_gets_the_log_end() -> None:
    assert (await asked(elected(), LATEST, 11, 1))[:2] == (0, 2)
    assert await asked(elected(), LATEST, 11, 2) == UNKNOWN


# --- a search that takes several steps

RECORDS = 4 * STEP_RECORDS


def recreated() -> Partition:
    return partition(name=TopicPartition("orders", 0))


async def searched(
    timestamp: int, change: Callable[[Partitions, Partition], object], after_steps: int = 3
) -> Any:
    """Return the error and the offset of a search among two batches of RECORDS records, if the
    partition changes after these steps. The first step reads no batch."""
    found = partition(name=TopicPartition("orders", 0), max_message_bytes=1 << 20)
    for number in range(2):
        found.append(batch(RECORDS, timestamp=NOW_MS + number * RECORDS), now_ms=NOW_MS)
    wanted = [ListOffsetsPartition(0, timestamp=timestamp)]
    request: Any = ListOffsetsRequest(topics=[ListOffsetsTopic("orders", wanted)])
    async with broker() as services:
        services.partitions.add(found)
        steps = list_offsets.handle(services, context(services, list_offsets.API, 11), request)
        assert isinstance(steps, GeneratorType)
        for _ in range(after_steps):
            next(steps)
        change(services.partitions, found)
        (row,) = at_its_end(steps).topics[0].partitions
    return row.error_code, row.offset


def lose(partitions: Partitions, found: Partition) -> None:
    """Lose the bytes of a partition that is deleted."""
    partitions.remove(found.topic_partition)
    files = found._log.files
    assert isinstance(files, MemoryFiles)
    for segment in found._log.segments:
        del files.nodes[segment.log.path]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda partitions, found: None, (0, RECORDS - 1), id="no change"),
        pytest.param(
            lambda partitions, found: at_its_end(found.delete_records_before(RECORDS + 7, NOW_MS)),
            (0, RECORDS + 7),
            id="retention deletes the record",
        ),
        pytest.param(
            lambda partitions, found: partitions.remove(found.topic_partition),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            id="deleted",
        ),
        pytest.param(
            lambda partitions, found: (
                partitions.remove(found.topic_partition),
                partitions.add(recreated()),
            ),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            id="created again",
        ),
        pytest.param(
            lambda partitions, found: found.become_follower(2, 5),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
            id="another leader",
        ),
    ],
)
async def test_a_partition_may_change_during_a_search(change: Any, expected: Any) -> None:
    assert await searched(NOW_MS + RECORDS - 1, change) == expected


async def test_the_record_with_the_latest_time_may_be_below_the_log_start() -> None:
    """As in Kafka. The search must not begin again for it."""
    found = partition(name=TopicPartition("orders", 0))
    found.append(batch(3, timestamp=NOW_MS), now_ms=NOW_MS)
    found.append(batch(3, timestamp=NOW_MS - 10), now_ms=NOW_MS)
    at_its_end(found.delete_records_before(4, NOW_MS))
    async with asyncio.timeout(30):
        assert (await asked(found, MAX_TIMESTAMP, 11))[:2] == (0, 2)


async def test_bytes_of_a_deleted_partition_that_are_gone_are_no_failure_of_the_disk() -> None:
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await searched(NOW_MS + RECORDS - 1, lose, after_steps=1) == gone


@pytest.mark.parametrize("timestamp", [0, NOW_MS, MAX_TIMESTAMP])
async def test_a_search_is_done_in_slices_also_for_a_single_partition(timestamp: int) -> None:
    assert await searched(timestamp, lambda partitions, found: None) in (
        (0, 0),
        (0, 2 * RECORDS - 1),
    )
