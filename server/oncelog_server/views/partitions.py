"""What operators see of a partition on this broker."""

from __future__ import annotations

import msgspec

from oncelog_server.topic_partition import TopicPartition


class OpenTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction with records in the partition and no marker yet. `updated_ms`: wall clock of
    the producer's last batch there, None if it is not known."""

    producer_id: int
    updated_ms: int | None


class PartitionView(msgspec.Struct, frozen=True, gc=False):
    """Offsets, sizes and producers at one moment. Counters are since the start. `refuses_writes`:
    the disk refused a side file of the log, but the partition is not offline."""

    partition: TopicPartition
    is_leader: bool
    is_under_replicated: bool
    refuses_writes: bool
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    segments: int
    producer_ids: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    open_transactions: tuple[OpenTransaction, ...]
