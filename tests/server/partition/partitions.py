"""Partitions on a disk in memory, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.storage.memory_files import MemoryFiles

NAME = TopicPartition("topic", 0)


def partition(
    files: MemoryFiles | None = None,
    name: TopicPartition = NAME,
    *,
    flush: GroupFlush | None = None,
    flush_on_ack: bool = False,
    isr: tuple[int, ...] = (0,),
    replicas: tuple[int, ...] = (0,),
    topic_id: bytes = bytes(16),
    **config: Any,
) -> Partition:
    """Return a partition that leads in epoch 0. Its syncs end when a test calls
    `files.settle()`."""
    files = files or MemoryFiles()
    log = PartitionLog.open(
        files,
        partition_directory(*name),
        LogConfig(**config),
        topic_id=topic_id,
        now_ms=NOW_MS,
        clean_shutdown=False,
        recovery_point=0,
        log_start_offset=0,
    )
    flush = flush or GroupFlush(files)
    found = Partition(name, topic_id, log, flush.request, flush_on_ack=flush_on_ack)
    found.become_leader(0, 0, isr, replicas)
    return found


def held_by(log: PartitionLog) -> Partition:
    """Return a partition with this log. The partition neither leads nor follows."""
    return Partition(NAME, bytes(16), log, lambda _: None)


def mark(
    partition: Partition, producer_id: int, *, epoch: int = 0, committed: bool = True,
    coordinator_epoch: int = 0, version: int = 1,
) -> int:  # fmt: skip
    """Write a marker, and return its offset."""
    return partition.append_marker(
        producer_id, epoch, committed=committed, coordinator_epoch=coordinator_epoch,
        transaction_version=version, now_ms=NOW_MS,
    ).last_offset  # fmt: skip


def send(
    partition: Partition, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0
) -> int:
    """Append a transactional batch, and return its first offset."""
    data = batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        is_transactional=True,
    )  # fmt: skip
    return partition.append(data, now_ms=NOW_MS).base_offset


def waiter(partition: Partition, end_offset: int) -> list[ErrorCode]:
    codes: list[ErrorCode] = []
    partition.when_committed(end_offset, codes.append)
    return codes


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.code
