"""The memory of the broker's partitions and coordinators, as plain values for the checkers."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.group.shard import GroupShard
from oncelog_server.partition.partition import Partition
from oncelog_server.transaction.coordinator import TransactionCoordinator
from tests.simulation.checking.live import LiveBroker, LivePartition, LiveTransaction
from tests.simulation.checking.logs import AbortedRow, Producer


def partition_view(partition: Partition, *, reads_files: bool = True) -> LivePartition:
    """Return the view of a partition. With `reads_files` the view has all aborted transactions,
    and the call reads files and repairs damaged ones. Without it, the view has only the rows of
    `.txnindex` files that are in memory."""
    log = partition._log
    return LivePartition(
        log_start_offset=log.log_start_offset,
        last_stable_offset=partition.last_stable_offset,
        high_watermark=partition.high_watermark,
        log_end_offset=log.log_end_offset,
        producers={
            entry.producer_id: Producer(
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.current_txn_first_offset,
            )
            for entry in log.producers
        },
        aborted=tuple(
            AbortedRow(*row)
            for row in log.aborted_transactions(log.log_start_offset, log.log_end_offset)
        )
        if reads_files
        else None,
        aborted_by_segment={}
        if reads_files
        else {
            base: tuple(AbortedRow(*row) for row in index.rows)
            for base, index in log.segments.aborted._loaded.items()
        },
    )


def transaction_views(
    coordinator: TransactionCoordinator,
) -> dict[tuple[int, str], LiveTransaction]:
    """Return the transactions by partition of the coordinator's log and transactional id."""
    views = {}
    for index, shard in coordinator.runtime.shards():
        for name, live in shard.transactions.items():
            if (
                live.metadata.last_update_ms >= 0
            ):  # otherwise the id's first record is not committed
                views[index, name] = LiveTransaction(
                    live.metadata.producer_id,
                    live.metadata.producer_epoch,
                    int(live.metadata.state),
                    frozenset(live.metadata.partitions),
                )
    return views


def broker_view(
    partitions: Iterable[Partition],
    transactions: TransactionCoordinator,
    groups: GroupCoordinator,
) -> LiveBroker:
    """Return the broker's memory. `partitions`: the partitions that this broker leads."""
    offsets, pending = offset_views(shard for _, shard in groups.runtime.shards())
    return LiveBroker(
        {partition.topic_partition: partition_view(partition) for partition in partitions},
        transaction_views(transactions),
        offsets,
        pending,
    )


def offset_views(
    shards: Iterable[GroupShard],
) -> tuple[dict[tuple[str, str, int], int], frozenset[tuple[str, str, int]]]:
    """Return the committed and the pending offsets, by (group, topic, partition)."""
    offsets: dict[tuple[str, str, int], int] = {}
    pending: set[tuple[str, str, int]] = set()
    for shard in shards:
        committed, staged = shard.table.offsets.snapshot()
        offsets |= {key: value.offset for key, value in committed.items()}
        pending |= {(group, topic, index) for _, group, topic, index in staged}
    return offsets, frozenset(pending)
