"""Reads many partitions under one limit of bytes. The first batch is returned even if it is larger
than the limit (KIP-74)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.cold_ranges import ColdRanges
from oncelog_server.fetching.fetched_partition import (
    HIGH_WATERMARK_UNUSED,
    FetchedPartition,
    PartitionKey,
)
from oncelog_server.fetching.unread import Unread
from oncelog_server.partition.follower_fetch import (
    FetchingFollower,
    check_follower,
    read_to_log_end,
    record_fetch,
)
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.partition_read import PartitionRead
from oncelog_server.quotas.replication import ReplicationQuota
from oncelog_server.refusal import Refused
from oncelog_server.replica.traffic import ReplicationTraffic
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

    def has_newer_high_watermark(self) -> bool:
        """Return True if the reader is a follower that does not know the high watermark yet
        (KIP-1166). A follower knows the high watermark that was sent last."""
        known = self.wanted.follower_high_watermark
        return (
            known != HIGH_WATERMARK_UNUSED
            and self.read is not None
            and max(known, self.wanted.last_sent_high_watermark) < self.read.high_watermark
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
    """`is_urgent`: the response must not wait for more records. `has_newer_high_watermark`: the
    response must not wait long, see `PartitionResult`."""

    partitions: list[PartitionResult]
    size: int
    is_urgent: bool
    has_newer_high_watermark: bool = False


def count_throttled(throttle: ReplicationQuota, result: FetchResult) -> None:
    """Count the records that a follower gets of throttled partitions, in sync or not, as Kafka
    does."""
    size = sum(
        len(found.read.records)
        for found in result.partitions
        if found.read is not None
        and found.read.records is not None
        and found.partition is not None
        and throttle.concerns(found.partition.topic_partition)
    )
    if size:
        throttle.record(size)


def count_sent(traffic: ReplicationTraffic, broker_id: int, result: FetchResult) -> None:
    """Count the records that the follower `broker_id` gets."""
    for found in result.partitions:
        records = None if found.read is None else found.read.records
        if records is not None and found.partition is not None:
            traffic.sent(found.partition.topic_partition, broker_id, len(records))


def read_partitions(
    wanted: list[FetchedPartition],
    find: Find,
    isolation: Isolation,
    max_bytes: int,
    follower: FetchingFollower | None = None,
    unread: Unread | None = None,
    cold: ColdRanges | None = None,
) -> Steps[FetchResult]:
    """Read all partitions once, in order. `find` raises Refused for a partition that this broker
    does not serve. A follower reads up to the log end, whatever the isolation level. `unread` are
    the partitions that the follower's next Fetch reads. Partitions with records that are only on
    the disk return none, and `cold` notes them; None: the read waits for the disk."""
    results: list[PartitionResult] = []
    size = 0
    is_urgent = has_newer_high_watermark = False
    for partition in wanted:
        left = max(min(partition.max_bytes, max_bytes - size), 0)
        try:
            found = find(partition.key)
            is_first = size == 0
            # Records at the high watermark and above are new, so they are in the page cache.
            is_old = partition.fetch_offset < found.high_watermark and (left > 0 or is_first)
            if cold is not None and is_old and cold.has(found, partition.fetch_offset):
                left, is_first = 0, False
            if follower is None:
                result = _read_one(partition, found, isolation, left, is_first)
            else:
                result = _read_for_follower(partition, found, follower, left, is_first)
                if unread is not None:
                    has_records = result.read is not None and result.read.records is not None
                    unread.note(partition, found, is_news=result.is_news(), has_records=has_records)
                has_newer_high_watermark = (
                    has_newer_high_watermark or result.has_newer_high_watermark()
                )
        except Refused as refused:
            result = PartitionResult(partition, refused.code)
            is_urgent = True
        else:
            if result.read is not None and result.read.records is not None:
                size += len(result.read.records)
            is_urgent = is_urgent or result.diverging is not None
        results.append(result)
        yield
    return FetchResult(results, size, is_urgent, has_newer_high_watermark)


def _read_one(
    wanted: FetchedPartition, partition: Partition, isolation: Isolation, left: int, is_first: bool
) -> PartitionResult:
    partition.check_leader(wanted.current_leader_epoch)
    diverging = _diverging(wanted, partition)
    if diverging is not None:
        return diverging
    read = partition.read(wanted.fetch_offset, left, isolation, at_least_one=is_first)
    return PartitionResult(wanted, ErrorCode.NONE, read, None, partition)


def _read_for_follower(
    wanted: FetchedPartition,
    partition: Partition,
    follower: FetchingFollower,
    left: int,
    is_first: bool,
) -> PartitionResult:
    partition.check_leader(wanted.current_leader_epoch)
    check_follower(partition, follower, wanted.current_leader_epoch)
    if not follower.is_repeated or wanted.current_leader_epoch < 0:
        # Other reads need no check: in one leader epoch the leader's log only grows, so logs that
        # have agreed still agree.
        diverging = _diverging(wanted, partition)
        if diverging is not None:
            return diverging
    # The fetch is recorded before the read, so that the response has the new high watermark.
    record_fetch(partition, follower, wanted.fetch_offset, wanted.follower_log_start_offset)
    read = read_to_log_end(
        partition,
        wanted.fetch_offset,
        left,
        at_least_one=is_first,
        is_held=follower.must_wait(partition),
    )
    return PartitionResult(wanted, ErrorCode.NONE, read, None, partition)


def _diverging(wanted: FetchedPartition, partition: Partition) -> PartitionResult | None:
    """Return the result if the reader's log differs from this log, else None."""
    if wanted.last_fetched_epoch < 0:
        return None
    diverging = end_of_divergence(partition, wanted.fetch_offset, wanted.last_fetched_epoch)
    if diverging is None:
        return None
    read = PartitionRead(
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        None,
        None,
    )
    return PartitionResult(wanted, ErrorCode.NONE, read, diverging, partition)


def end_of_divergence(
    partition: Partition, fetch_offset: int, last_fetched_epoch: int
) -> tuple[int, int] | None:
    """Return the epoch and end offset at which the reader's log and the partition's log diverge.
    The logs also diverge if the partition's log ends before `fetch_offset`. Return None if the logs
    agree (KIP-595, KIP-320). Raises Refused with OFFSET_OUT_OF_RANGE if `fetch_offset` is below the
    log start, or if the epoch is unknown."""
    if fetch_offset < partition.log_start_offset:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    found = partition.end_offset_for_epoch(last_fetched_epoch)
    if found is None:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    epoch, end_offset = found
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return found
    return None
