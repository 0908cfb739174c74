"""Counts the records that a reader gets from a range of offsets. Markers, aborted records and
records that compaction removed do not count. The difference between the end and the start of the
range may be larger than this count, because markers and aborted records have offsets too (KIP-98).
The walk reads the headers of batches, in steps, because a range may be as long as the log."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.errors import CorruptRecords, UnsupportedMagic
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.log.unknown_rows import compute_unknown_rows, has_unknown_rows

# Number of batches in one step. A batch takes about 2 µs.
STEP_BATCHES: Final = 256
# Maximum size of a decompressed batch.
DECODED_BYTES: Final = 64 << 20


class Walked(NamedTuple):
    """The number of readable records from the first offset of a walk up to `reached`."""

    reached: int
    records: int


def walk_readable(log: PartitionLog, first_offset: int, end_offset: int) -> Iterator[Walked]:
    """Count the records of `first_offset`..`end_offset` (exclusive) outside of control batches and
    aborted transactions. Yield the total so far after each step. The log may change between two
    steps.

    Up to the last stable offset, the total is the number of records that a read_committed reader
    gets. Above the last stable offset, records of open transactions also count. Raises StorageError
    and CorruptLog.
    """
    if has_unknown_rows(log, first_offset):
        for _ in compute_unknown_rows(log):
            yield Walked(first_offset, 0)
    count = 0
    offset = max(first_offset, log.log_start_offset)
    while offset < end_offset:
        headers = log.reader.headers_from(offset, end_offset, STEP_BATCHES)
        if not headers:
            yield Walked(end_offset, count)  # compaction may have removed all records up to the end
            return
        reached = headers[-1].next_offset
        aborted = log.aborted_transactions(offset, reached)
        for header in headers:
            if not header.is_control and not _is_aborted(header, aborted):
                count += _records_within(log, header, offset, end_offset)
        offset = reached
        yield Walked(min(reached, end_offset), count)


def count_readable(
    log: PartitionLog, first_offset: int, end_offset: int
) -> Generator[None, None, int]:
    """Return the total of `walk_readable`. Yield after each step."""
    count = 0
    for walked in walk_readable(log, first_offset, end_offset):
        count = walked.records
        yield
    return count


def _is_aborted(header: BatchHeader, aborted: list[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        row.producer_id == header.producer_id
        and row.first_offset <= header.base_offset <= row.last_offset
        for row in aborted
    )


def _records_within(log: PartitionLog, header: BatchHeader, first: int, end: int) -> int:
    """Return the number of the batch's records with an offset in `first`..`end` (exclusive). The
    batch must be decoded if compaction has removed some of its records and a bound is inside of the
    batch."""
    if first <= header.base_offset and header.next_offset <= end:
        return header.records_count
    if header.records_count == header.last_offset_delta + 1:
        return min(header.next_offset, end) - max(header.base_offset, first)
    batch = log.read(
        header.base_offset, header.size, limit=header.next_offset, at_least_one=True
    ).records
    if batch is None:  # deleted meanwhile
        return 0
    try:
        records = read_records(batch.read(), max_bytes=DECODED_BYTES)
    except (CorruptRecords, UnsupportedMagic) as error:
        raise CorruptLog(batch.file.path, batch.position, str(error)) from error
    return sum(first <= record.offset < end for record in records)
