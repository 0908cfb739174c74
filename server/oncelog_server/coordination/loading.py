"""Rebuilding a shard from its partition's log: the same `replay` that live decisions go through."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.records.batch import BatchHeader, read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.coordination.shard import CoordinatorRecord, Shard, TransactionOfRecords
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from oncelog_server.slices import Steps
from oncelog_server.storage.files import StorageError

LOAD_BYTES: Final = 4 << 20
LARGEST_BATCH_BYTES: Final = 64 << 20


def replay_log(log: PartitionLog, shard: Shard) -> Steps[int]:
    """Replay everything from the log's start, in slices; the number of records.

    Records of open transactions are replayed with their producer and become state at its marker.
    Raises ValueError for a record that cannot be read: the shard must be refused rather than served
    half (S14).
    """
    offset = log.log_start_offset
    count = 0
    while offset < log.log_end_offset:
        try:
            data = _read(log, offset)
            if data is None:
                break
            # A read may end inside of a batch, which then comes whole with the next one.
            read_from = offset
            for position, header in split_batches(data, allow_partial=True):
                offset = header.next_offset
                count += yield from _replay_batch(shard, data, position, header)
            if offset == read_from:
                raise ValueError("a batch is cut off")
        except (StorageError, CorruptLog, CorruptRecords) as error:
            raise ValueError(f"offset {offset}: {error}") from error
    return count


def _read(log: PartitionLog, offset: int) -> bytes | None:
    """From the batch with `offset` on; None where no batch follows, though the log ends later:
    compaction took it, or a power failure. Raises StorageError and CorruptLog."""
    found = log.read(offset, LOAD_BYTES, limit=log.log_end_offset, at_least_one=True)
    return None if found.records is None else found.records.read()


def _replay_batch(shard: Shard, data: bytes, position: int, header: BatchHeader) -> Steps[int]:
    transaction = None
    if header.is_transactional:
        transaction = TransactionOfRecords(header.producer_id, header.producer_epoch)
    count = 0
    for record in read_records(data, position, max_bytes=LARGEST_BATCH_BYTES):
        yield
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
