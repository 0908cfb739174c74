"""The read model of a partition."""

from __future__ import annotations

from oncelog_server.partition.partition import Partition
from oncelog_server.views.partitions import OpenTransaction, PartitionView


def partition_view(partition: Partition) -> PartitionView:
    log = partition._log
    producers = log.producers
    return PartitionView(
        partition.topic_partition,
        partition.is_leader,
        partition.is_leader and len(partition.isr) < len(partition.replicas),
        partition.offline is None and log.refusals.current is not None,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        log.log_end_offset,
        log.size_bytes,
        len(log.segments),
        len(producers),
        log.log_end_offset - log.opened_at_offset,
        log.segments.appended_bytes,
        partition.bytes_out,
        tuple(
            OpenTransaction(
                transaction.producer_id,
                None
                if (entry := producers.entry(transaction.producer_id)) is None
                else entry.updated_ms,
            )
            for transaction in producers.ongoing_transactions()
        ),
    )
