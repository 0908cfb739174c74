"""The leader's part of a follower's Fetch: check the follower, record its log end, and read up to
the leader's log end (Kafka's Partition.fetchRecords)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.errors import CorruptLog
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.partition_read import PartitionRead
from oncelog_server.quotas.replication import ReplicationQuota
from oncelog_server.refusal import Refused
from oncelog_server.replica.state import UNKNOWN
from oncelog_server.storage.files import StorageError

NO_EPOCH = -1


class FetchingFollower(msgspec.Struct, frozen=True):
    """The broker that sends a Fetch.

    `broker_epoch` is the epoch in the request, NO_EPOCH without one. `alive_epoch` is the epoch of
    the broker's registration in the metadata image, NO_EPOCH if the broker is not alive. If
    `is_repeated`, the Fetch was parked, and its offsets are recorded already."""

    broker_id: int
    broker_epoch: int
    alive_epoch: int
    now_ms: int
    is_repeated: bool = False
    # Called after the fetch of a follower outside of the ISR. None if the ISR cannot be changed.
    joins: Callable[[Partition], None] | None = None
    # The throttle for records that this broker sends to followers, None without a throttle.
    throttle: ReplicationQuota | None = None

    def must_wait(self, partition: Partition) -> bool:
        """Return True if the follower gets no records of the partition yet: it is outside of the
        ISR, and the partition is throttled (KIP-73; Kafka's shouldLeaderThrottle)."""
        throttle = self.throttle
        return (
            throttle is not None
            and self.broker_id not in partition.replicas.isr
            and throttle.concerns(partition.topic_partition)
            and throttle.is_exceeded()
        )

    def repeated(self) -> FetchingFollower:
        """Return the follower for a read after the first one of the same Fetch."""
        return msgspec.structs.replace(self, is_repeated=True)


def check_follower(partition: Partition, follower: FetchingFollower, leader_epoch: int) -> None:
    """Raise Refused if the partition is not assigned to the follower, or the request comes from an
    earlier registration of the follower (KIP-903).

    `leader_epoch` is the current leader epoch in the request, -1 without one. The code for a broker
    without a replica is UNKNOWN_LEADER_EPOCH: the leader's metadata may lack a reassignment that
    the follower has seen.
    """
    if not partition.replicas.is_follower(follower.broker_id):
        code = (
            ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
        raise Refused(code, f"broker {follower.broker_id} has no replica of the partition")
    if NO_EPOCH != follower.broker_epoch < follower.alive_epoch:
        raise Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {follower.broker_id} has registered again with epoch {follower.alive_epoch},"
            f" the request has epoch {follower.broker_epoch}",
        )


def record_fetch(
    partition: Partition,
    follower: FetchingFollower,
    fetch_offset: int,
    log_start_offset: int = UNKNOWN,
) -> None:
    """Record that the follower has all records from `log_start_offset` to `fetch_offset`, and
    advance the high watermark. A `fetch_offset` outside of the log is not recorded, because the
    read refuses it."""
    end_offset = partition.log_end_offset
    if follower.is_repeated or not partition.log_start_offset <= fetch_offset <= end_offset:
        return
    partition.replicas.record_fetch(
        follower.broker_id,
        fetch_offset,
        end_offset,
        follower.now_ms,
        follower.broker_epoch,
        log_start_offset,
    )
    partition.recompute_high_watermark()
    if partition.deletion_waiters is not None:
        partition.deletion_waiters.wake_all()
    if follower.joins is not None and follower.broker_id not in partition.replicas.isr:
        follower.joins(partition)


def read_to_log_end(
    partition: Partition, offset: int, max_bytes: int, *, at_least_one: bool, is_held: bool = False
) -> PartitionRead:
    """Return the records from `offset` on, committed or not. If `is_held`, return no records.
    `at_least_one`: as in `Partition.read`. Raises Refused (OFFSET_OUT_OF_RANGE,
    KAFKA_STORAGE_ERROR)."""
    log = partition._log
    end_offset = log.log_end_offset
    if not log.log_start_offset <= offset <= end_offset:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    records = None
    if offset < end_offset and not is_held:
        try:
            records = log.read(
                offset, max_bytes, limit=end_offset, at_least_one=at_least_one
            ).records
        except (StorageError, CorruptLog) as error:
            partition.on_storage_error(partition, error)
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return PartitionRead(
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        records,
        None,
    )
