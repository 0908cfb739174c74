"""Rebuilds a shard from its partition's log. Loading uses the same `replay` method as live
decisions."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.records.batch import BatchHeader, read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.coordinator.shard import CoordinatorRecord, Replica, TransactionOfRecords
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.results import FileRange
from oncelog_server.partition.appended_records import AppendedRecords
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import Steps
from oncelog_server.storage.files import File, StorageError

LOAD_BYTES: Final = 4 << 20
LARGEST_BATCH_BYTES: Final = 64 << 20


def replay_log(partition: Partition, shard: Replica) -> Steps[int]:
    """Replay everything from the log's start, in slices. Return the number of records.

    Records of an open transaction are replayed with their producer, and become state at the
    transaction's marker. Raises ValueError for an invalid record. The caller must then refuse the
    shard, and never serve a part of it (scenario S14).
    """
    appended = AppendedRecords(partition)
    offset = partition.log_start_offset
    count = 0
    # The file of the last replayed batch, and the position at which the batch ends.
    before: tuple[File | None, int] = None, 0
    while offset < partition.log_end_offset:
        try:
            found = appended.read(offset, LOAD_BYTES)
            if found is None:  # compaction or a power failure has removed the last batches
                break
            data = found.read()
            _check_place(appended, found, before)
            # A read may end within a batch. The next read returns this batch completely.
            read_from, least, end = offset, 0, appended.end_of_file(found.file)
            for position, header in split_batches(data, allow_partial=True):
                _check_offsets(header, least, offset, end)
                least = offset = header.next_offset
                count += yield from _replay_batch(shard, data, position, header)
                before = found.file, found.position + position + header.size
            if offset == read_from:
                raise ValueError("a batch is cut off")
        except (StorageError, CorruptLog, CorruptRecords) as error:
            raise ValueError(f"offset {offset}: {error}") from error
    return count


def _check_place(
    appended: AppendedRecords, found: FileRange, before: tuple[File | None, int]
) -> None:
    """Raise ValueError if the read of `found` skipped bytes after `before`, the end of the last
    replayed batch. A read skips a batch with offsets below the base offset of its segment, and a
    broker never writes such a batch."""
    file, end = before
    if file is None:
        starts_within = appended.partition.log_start_offset > appended.first_segment_offset
        goes_on = not found.position or starts_within
    elif file is found.file:
        goes_on = found.position == end
    else:  # compaction may have replaced the last file
        goes_on = not found.position and (end == file.size or not appended.end_of_file(file))
    if not goes_on:
        raise ValueError(
            f"{found.file.path} at byte {found.position}: the read skipped batches before it"
        )


def _check_offsets(header: BatchHeader, least: int, offset: int, end: int) -> None:
    """Raise ValueError for a batch with an offset that does not follow the previous batch, or that
    does not belong to the segment. Such an offset was changed, or batches were moved. No checksum
    covers the offset. Without this check the next read would skip batches."""
    begin, last = header.base_offset, header.last_offset
    if not (least <= begin <= last < end and offset <= last):
        raise ValueError(
            f"a batch has offsets {begin}..{last}, expected within {max(least, offset)}..{end - 1}"
        )


def _replay_batch(shard: Replica, data: bytes, position: int, header: BatchHeader) -> Steps[int]:
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
