"""Rebuilding a shard from its partition's log: the same `replay` that live decisions go through."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.records.batch import read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.coordination.shard import CoordinatorRecord, Shard, TransactionOfRecords
from oncelog_server.log.log import PartitionLog

LOAD_BYTES: Final = 4 << 20


def replay_log(log: PartitionLog, shard: Shard) -> int:
    """Replay everything from the log's start; the number of records.

    Records of open transactions are replayed with their producer and become state at its marker.
    Raises ValueError for a record that cannot be read: the shard must be refused rather than served
    half (S14).
    """
    offset = log.log_start_offset
    count = 0
    while offset < log.log_end_offset:
        found = log.read(offset, LOAD_BYTES, limit=log.log_end_offset, at_least_one=True)
        if found.records is None:
            break
        data = found.records.read()
        for position, header in split_batches(data):
            if header.next_offset <= offset:
                continue
            offset = header.next_offset
            try:
                records = read_records(data, position, max_bytes=64 << 20)
            except CorruptRecords as error:
                raise ValueError(f"offset {header.base_offset}: {error}") from error
            transaction = None
            if header.is_transactional:
                transaction = TransactionOfRecords(header.producer_id, header.producer_epoch)
            for record in records:
                if header.is_control:
                    marker = read_marker(record)
                    if marker is not None:
                        shard.replay_marker(
                            header.producer_id, header.producer_epoch, committed=marker.committed
                        )
                    continue
                if record.key is None:
                    raise ValueError(f"offset {record.offset}: no key")
                shard.replay(
                    CoordinatorRecord(record.key, record.value),
                    offset=record.offset,
                    transaction=transaction,
                )
                count += 1
    return count
