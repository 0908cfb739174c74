"""The lines that Kafka's DumpLogSegments (4.3.1) prints for indexes and producer snapshots.

`IndexDump` also collects the mismatches that Kafka's tool reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from oncelog_protocol.internal.producer_snapshot import decode_producer_snapshot
from oncelog_protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from oncelog_server.inspection.batches import RawBatches
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.storage.files import File

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TXN_ROW: Final = Struct(">hqqqq")
_NONE: Final = -1
_MAX_SEQUENCE: Final = (1 << 31) - 1
T = TypeVar("T")


class Complaint(NamedTuple):
    """A mismatch between an index and the log. It is printed to standard error after all files,
    under its heading."""

    heading: str
    line: str


class MalformedFile(ValueError):
    """The content of the file does not fit its name."""


def offset_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """Return (offset, position) of each entry of an `.index`, without padding.

    Raises MalformedFile.
    """
    rows = _rows(data, _OFFSET_ENTRY, "an offset index")
    return _before_padding([(base_offset + relative, position) for relative, position in rows])


def time_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """Return (offset, timestamp) of each entry of a `.timeindex`, without padding.

    Raises MalformedFile.
    """
    rows = _rows(data, _TIME_ENTRY, "a time index")
    return _before_padding([(base_offset + relative, timestamp) for timestamp, relative in rows])


def aborted_rows(data: bytes) -> list[AbortedTransaction]:
    """Return the rows of a `.txnindex`. Raises MalformedFile."""
    rows = _rows(data, _TXN_ROW, "a transaction index")
    if any(version != 0 for version, *_ in rows):
        raise MalformedFile("a transaction index with rows of an unknown version")
    return [AbortedTransaction(*row) for _, *row in rows]


def _rows(data: bytes, layout: Struct, what: str) -> list[tuple[int, ...]]:
    if len(data) % layout.size:
        raise MalformedFile(f"{what} of {len(data)} bytes: not a multiple of {layout.size}")
    return list(layout.iter_unpack(data))


def _before_padding(entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the entries before the padding of an index that Kafka preallocated.

    The padding is zeros. It begins with the first entry that has only zeros, apart from the very
    first entry of the file, which may be valid.
    """
    if not entries:
        return entries
    base = entries[0][0] if entries[0][1] == 0 else None
    for slot, (offset, second) in enumerate(entries):
        if slot and second == 0 and (base is None or offset == base):
            return entries[:slot]
    return entries


class IndexDump:
    """Prints indexes and collects their mismatches with the log.

    With `verify_only`, no entry is printed. With `sanity_only`, the only check is the one that a
    Kafka broker makes at its start; the broker rebuilds an index that fails it.
    """

    def __init__(self, *, verify_only: bool = False, sanity_only: bool = False) -> None:
        self.verify_only = verify_only
        self.sanity_only = sanity_only
        self.complaints: list[Complaint] = []

    def offset_index(self, path: str, data: bytes, base_offset: int, log: File) -> Iterator[str]:
        """Yield the lines of an offset index. `log` is the segment's log. Raises MalformedFile."""
        entries = offset_entries(data, base_offset)
        if not data:
            yield f"{path} is empty."
            return
        if self.sanity_only:
            if entries[-1][0] <= base_offset:
                raise MalformedFile(f"{path}: the last offset {entries[-1][0]} is not above the"
                                    f" base offset {base_offset}")  # fmt: skip
            yield f"{path} passed sanity check."
            return
        for offset, position in entries:
            header = header_at(log, position)
            found = None if header is None else header.last_offset
            if found != offset:
                line = f"  Index offset: {offset}, log offset: {found}"
                self.complaints.append(Complaint(f"Mismatches in :{path}", line))
            if not self.verify_only:
                yield f"offset: {offset} position: {position}"

    def time_index(
        self, path: str, data: bytes, base_offset: int, log: File, offsets: bytes
    ) -> Iterator[str]:
        """Yield the lines of a time index. `offsets` are the bytes of the segment's offset index.

        Raises MalformedFile.
        """
        entries = time_entries(data, base_offset)
        if self.sanity_only:
            if entries and (entries[-1][1] < entries[0][1] or entries[-1][0] < base_offset):
                raise MalformedFile(f"{path}: the last entry is below the first one")
            yield f"{path} passed sanity check."
            return
        positions = offset_entries(offsets, base_offset)
        previous = _NONE
        for offset, timestamp in entries:
            self._check_time(path, log, positions, offset, timestamp, previous)
            if not self.verify_only:
                yield f"timestamp: {timestamp} offset: {offset}"
            previous = timestamp

    def _check_time(
        self, path: str, log: File, positions: list[tuple[int, int]], offset: int, timestamp: int,
        previous: int,
    ) -> None:  # fmt: skip
        position = max((at for known, at in positions if known <= offset), default=0)
        header = _first_up_to(log, position, offset)
        if header is None or header.last_offset != offset:
            found = _NONE if header is None else header.last_offset
            line = f"Indexed offset: {offset}, found log offset: {found}"
            heading = "The following indexed offsets are not found in the log."
            self.complaints.append(Complaint(heading, line))
            return
        if header.max_timestamp != timestamp:
            line = f"  Index timestamp: {timestamp}, log timestamp: {header.max_timestamp}"
            self.complaints.append(Complaint(f"Found timestamp mismatch in :{path}", line))
        if previous >= timestamp:
            line = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
            self.complaints.append(Complaint(f"Found out of order timestamp in :{path}", line))


def header_at(log: File, position: int) -> BatchHeader | None:
    """Return the batch header at `position`, None if the file ends before the header does."""
    if position < 0 or position + HEADER_SIZE > log.size:
        return None
    data = log.read(position, HEADER_SIZE)
    return read_header(data) if len(data) == HEADER_SIZE else None


def _first_up_to(log: File, position: int, offset: int) -> BatchHeader | None:
    """Return the header of the first batch from `position` on that ends at or after `offset`."""
    batches = RawBatches(log)
    batches.position = position
    for batch in batches:
        if batch.header.last_offset >= offset:
            return batch.header
    return None


def txn_index_lines(data: bytes) -> Iterator[str]:
    """Yield a line for each aborted transaction. Raises MalformedFile."""
    for row in aborted_rows(data):
        yield (
            f"version: 0 producerId: {row.producer_id} firstOffset: {row.first_offset}"
            f" lastOffset: {row.last_offset} lastStableOffset: {row.last_stable_offset}"
        )


def snapshot_lines(data: bytes) -> Iterator[str]:
    """Yield a line for each producer id.

    Raises ProtocolError or UnknownRecordVersion if the snapshot is damaged.
    """
    for entry in decode_producer_snapshot(data):
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch}"
            f" coordinatorEpoch: {entry.coordinator_epoch}"
            f" currentTxnFirstOffset: {_optional(entry.current_txn_first_offset)}"
            f" lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            first = _NONE
            if entry.last_sequence != _NONE:
                first = (entry.last_sequence - entry.offset_delta) & _MAX_SEQUENCE
            line += (
                f" firstSequence: {first} lastSequence: {entry.last_sequence}"
                f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta}"
                f" timestamp: {entry.timestamp}"
            )
        yield line


def _optional(value: int) -> str:
    return "OptionalLong.empty" if value < 0 else f"OptionalLong[{value}]"
