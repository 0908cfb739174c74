"""All batches of a log with their producers, and the markers between them."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_protocol.records.batch import read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.record import Bytes

# Maximum size of one decompressed batch. The batches in the logs that `io.state_log` reads are far
# smaller, because the stored states are small.
_MAX_BATCH_BYTES: Final = 64 << 20


class LoggedBatch(NamedTuple):
    """One batch of the log. `committed` is the decision of a marker, and None for data.
    `last_sequence` is -1 for a marker. `records` are pairs of key and value."""

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    is_transactional: bool
    committed: bool | None
    records: tuple[tuple[bytes | None, bytes | None], ...]


def read_log(buffer: Bytes, offset: int) -> list[LoggedBatch]:
    """Return the batches of a fetch response from `offset` on. Control batches other than commit
    and abort markers are left out. Raises CorruptRecords, UnsupportedMagic."""
    found = []
    for position, header in split_batches(buffer, allow_partial=True):
        if header.next_offset <= offset:
            continue
        records = read_records(buffer, position, max_bytes=_MAX_BATCH_BYTES)
        committed = None
        if header.is_control:
            marker = read_marker(records[0]) if records else None
            if marker is None:
                continue
            committed, records = marker.committed, []
        found.append(
            LoggedBatch(
                header.base_offset,
                header.next_offset,
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                header.is_transactional,
                committed,
                tuple((record.key, record.value) for record in records),
            )
        )
    return found
