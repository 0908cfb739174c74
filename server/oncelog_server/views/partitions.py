"""The read models of partitions on this broker, for operators."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.topic_partition import TopicPartition


class OpenTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction with records in the partition and without a marker. `first_offset`: offset of
    its first record there. `updated_ms`: wall clock of the producer's last batch there, None if it
    is unknown."""

    producer_id: int
    first_offset: int
    updated_ms: int | None


class Traffic(msgspec.Struct, frozen=True, gc=False):
    """Traffic with clients since the start of the broker: records and bytes appended by the leader,
    markers included, and bytes in responses to consumers. Replication is left out."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def plus(self, other: Traffic) -> Traffic:
        """Return the sum."""
        return Traffic(
            self.messages_in + other.messages_in,
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
        )


class PartitionView(msgspec.Struct, frozen=True, gc=False):
    """Offsets, sizes and producers at one moment. `refuses_writes`: the disk has refused to write a
    file of the log, and has not accepted the file since. The partition is not offline."""

    partition: TopicPartition
    is_leader: bool
    is_under_replicated: bool
    is_reassigning: bool
    refuses_writes: bool
    is_under_min_isr: bool
    is_at_min_isr: bool
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    segments: int
    producer_ids: int
    traffic: Traffic
    # Batches of the leader, since the start, that contradict this follower's state of producers.
    mismatches: int
    open_transactions: tuple[OpenTransaction, ...]


class ReadableView(msgspec.Struct, frozen=True, gc=False):
    """The bounds between which records of a partition are counted, at one moment."""

    partition: TopicPartition
    topic_id: bytes
    is_compacted: bool
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


class ReplicaView(msgspec.Struct, frozen=True, gc=False):
    """A partition in the data directory: Kafka's ReplicaInfo (KIP-113). `out_of_sync_ms`: the
    followers outside of the ISR if this broker leads, with the time since each was caught up."""

    partition: TopicPartition
    size_bytes: int
    out_of_sync_ms: Mapping[int, int]


class ProducerView(msgspec.Struct, frozen=True, gc=False):
    """A producer id that a partition knows (KIP-664). A number is -1 if the producer has none.
    `held_records` and `held_bytes` are the records and bytes from the first record of its open
    transaction to the high watermark, and None without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int
    held_records: int | None
    held_bytes: int | None


class PartitionState(msgspec.Struct, frozen=True):
    """A partition in metadata responses. `leader` is -1, with LEADER_NOT_AVAILABLE, if no broker
    serves the partition, and with LISTENER_NOT_FOUND if the leader does not have the client's
    listener."""

    code: ErrorCode
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
