"""Describes the producers of a partition for operators (KIP-664), with the number of records that
each open transaction holds back from readers."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_server.log.producers import NONE, ProducerEntry
from oncelog_server.partition.partition import Partition
from oncelog_server.views.partitions import ProducerView


def describe_producers(partition: Partition) -> Iterator[ProducerView]:
    """Yield all known producers in the order of their ids. Raises StorageError and CorruptLog."""
    entries = sorted(partition._log.producers, key=lambda entry: entry.producer_id)
    return (_describe(partition, entry) for entry in entries)


def _describe(partition: Partition, entry: ProducerEntry) -> ProducerView:
    held_records = held_bytes = None
    if entry.current_txn_first_offset != NONE:
        # Records that retention has deleted are not held back any more (L9).
        first = max(entry.current_txn_first_offset, partition._log.log_start_offset)
        held_records = max(partition.high_watermark - first, 0)
        held_bytes = partition._log.reader.size_from(first)
    return ProducerView(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
        held_records,
        held_bytes,
    )
