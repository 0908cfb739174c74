"""Reads many partitions under one limit of bytes. The first batch is returned even if it is larger
than the limit (KIP-74)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.sessions import FetchedPartition, PartitionKey
from oncelog_server.partition.partition import Isolation, Partition, PartitionRead
from oncelog_server.refusal import Refused
from oncelog_server.slices import Steps

Find = Callable[[PartitionKey], Partition]


class PartitionResult(msgspec.Struct):
    """The result of one partition. `read` is None if `code` is an error. `diverging` is set if the
    reader must truncate (KIP-595)."""

    wanted: FetchedPartition
    code: ErrorCode
    read: PartitionRead | None = None
    diverging: tuple[int, int] | None = None
    partition: Partition | None = None

    def is_news(self) -> bool:
        """Return True if an incremental response must contain the partition (KIP-227)."""
        read, wanted = self.read, self.wanted
        if read is None or self.diverging is not None:
            return True
        return (
            read.records is not None
            or wanted.last_sent_error
            or read.high_watermark != wanted.last_sent_high_watermark
            or read.last_stable_offset != wanted.last_sent_last_stable_offset
            or read.log_start_offset != wanted.last_sent_log_start_offset
        )

    def mark_sent(self) -> None:
        """Store the values of the response in the session."""
        wanted, read = self.wanted, self.read
        wanted.last_sent_error = read is None
        if read is not None:
            wanted.last_sent_high_watermark = read.high_watermark
            wanted.last_sent_last_stable_offset = read.last_stable_offset
            wanted.last_sent_log_start_offset = read.log_start_offset


class FetchResult(msgspec.Struct):
    partitions: list[PartitionResult]
    size: int
    has_error: bool


def read_partitions(
    wanted: list[FetchedPartition], find: Find, isolation: Isolation, max_bytes: int
) -> Steps[FetchResult]:
    """Read all partitions once, in order. `find` raises Refused for a partition that this broker
    does not serve."""
    results: list[PartitionResult] = []
    size = 0
    has_error = False
    for partition in wanted:
        try:
            result = _read_one(partition, find(partition.key), isolation, max_bytes - size, size)
        except Refused as refused:
            result = PartitionResult(partition, refused.code)
            has_error = True
        else:
            if result.read is not None and result.read.records is not None:
                size += len(result.read.records)
            has_error = has_error or result.diverging is not None
        results.append(result)
        yield
    return FetchResult(results, size, has_error)


def _read_one(
    wanted: FetchedPartition, partition: Partition, isolation: Isolation, left: int, size: int
) -> PartitionResult:
    partition.check_leader(wanted.current_leader_epoch)
    if wanted.last_fetched_epoch >= 0:
        diverging = partition.end_of_divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
        if diverging is not None:
            read = PartitionRead(
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
                None,
                None,
            )
            return PartitionResult(wanted, ErrorCode.NONE, read, diverging, partition)
    read = partition.read(
        wanted.fetch_offset,
        max(min(wanted.max_bytes, left), 0),
        isolation,
        at_least_one=size == 0,
    )
    return PartitionResult(wanted, ErrorCode.NONE, read, None, partition)
