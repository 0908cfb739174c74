"""Checks that compare the files beside a segment's log with the batches of the log. All checks use
one walk over the log."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.producer_snapshot import ProducerEntry, decode_producer_snapshot
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.inspection.findings import REBUILT, Finding, Severity
from oncelog_server.inspection.side_files import MalformedFile, aborted_rows
from oncelog_server.log.producers import NONE, Producers
from oncelog_server.log.txn_index import ROW_SIZE, AbortedTransaction
from oncelog_server.storage.files import File

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_ROWS_AT_ONCE: Final = 1 << 13


def _entries(file: File, layout: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (position, row) of each row of the file, in bounded memory, without a torn last row."""
    for start in range(0, file.size, layout.size * _ROWS_AT_ONCE):
        data = file.read(start, layout.size * _ROWS_AT_ONCE)
        whole = len(data) - len(data) % layout.size
        for slot, row in enumerate(layout.iter_unpack(data[:whole])):
            yield start + slot * layout.size, row


class _Check:
    """The rows of an index in their order, and the first problem."""

    def __init__(self, file: File, layout: Struct, base_offset: int) -> None:
        self.problem: Finding | None = None
        self._path = file.path
        self._base_offset = base_offset
        self._rows = _entries(file, layout)
        self._row: tuple[int, tuple[int, ...]] | None = None
        if file.size % layout.size:
            self._complain(
                file.size, f"the size of {file.size} bytes is no multiple of {layout.size}"
            )
        self._advance()

    def _advance(self) -> None:
        before, self._row = self._row, next(self._rows, None)
        if self._row is not None and before is not None and not any(self._row[1]):
            self._row = None  # Kafka preallocates indexes: the rest is padding

    def _complain(self, position: int, what: str) -> None:
        if self.problem is None:
            self.problem = Finding(Severity.DERIVED, self._path, what, REBUILT, position)


class OffsetIndexCheck(_Check):
    """Check of an offset index: each entry has the last offset and the position of a batch."""

    def __init__(self, file: File, base_offset: int) -> None:
        super().__init__(file, _OFFSET_ENTRY, base_offset)

    def on_batch(self, position: int, last_offset: int) -> None:
        """Compare the entries up to the next batch of the log, which is at `position`."""
        while self._row is not None and self._row[1][1] <= position:
            at, (relative, indexed) = self._row
            offset = self._base_offset + relative
            if indexed < position:
                self._complain(
                    at, f"an entry has offset {offset} at byte {indexed}, where no batch begins"
                )
            elif offset != last_offset:
                self._complain(
                    at,
                    f"an entry has offset {offset} at byte {indexed}, but the last offset of the"
                    f" batch there is {last_offset}",
                )
            self._advance()

    def finish(self) -> Finding | None:
        """Return the first problem, None without one. Call it after the last batch."""
        if self._row is not None:
            at, (relative, indexed) = self._row
            offset = self._base_offset + relative
            self._complain(
                at, f"an entry has offset {offset} at byte {indexed}, where no batch begins"
            )
        return self.problem


class TimeIndexCheck(_Check):
    """Check of a time index: each entry has the largest timestamp and the last offset of a batch.
    No earlier batch of the segment has a larger timestamp."""

    def __init__(self, file: File, base_offset: int) -> None:
        super().__init__(file, _TIME_ENTRY, base_offset)
        self._latest = -1

    def on_batch(self, last_offset: int, max_timestamp: int) -> None:
        """Compare the entries up to the next batch of the log, which ends at `last_offset`."""
        self._latest = max(self._latest, max_timestamp)
        while self._row is not None and self._base_offset + self._row[1][1] <= last_offset:
            at, (timestamp, relative) = self._row
            offset = self._base_offset + relative
            if offset < last_offset:
                self._complain(at, f"an entry has offset {offset}, which ends no batch")
            elif timestamp != max_timestamp or timestamp != self._latest:
                self._complain(
                    at,
                    f"an entry has timestamp {timestamp} at offset {offset}, but the batch there"
                    f" has {max_timestamp}, and the largest timestamp up to it is {self._latest}",
                )
            self._advance()

    def finish(self) -> Finding | None:
        """Return the first problem, None without one. Call it after the last batch."""
        if self._row is not None:
            at, (_, relative) = self._row
            self._complain(
                at, f"an entry has offset {self._base_offset + relative}, which ends no batch"
            )
        return self.problem


class AbortedRows:
    """The rows that a segment's `.txnindex` must have, computed from the segment's batches. Each
    row takes 32 bytes of memory."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._markers = array("q")

    def note_abort(self, offset: int) -> None:
        """Add the ABORT marker at `offset`, whether or not it ends a transaction."""
        self._markers.append(offset)

    def note_row(self, row: AbortedTransaction) -> None:
        """Add the row of a marker that ends a transaction with records in this partition."""
        self._numbers.extend(row)

    def compare(
        self, path: str, data: bytes | None, end_offset: int, *, compacted: bool
    ) -> Finding | None:
        """Return the problem of the file, None without one.

        `data` is its content, None without a file. Rows of markers from `end_offset` on were added
        later and do not count. If the segment is `compacted`, its log has too few records to
        compute all rows, so each row of the file only needs its ABORT marker in the log.
        """
        try:
            rows = [row for row in aborted_rows(data or b"") if row.last_offset < end_offset]
        except MalformedFile as error:
            return Finding(Severity.DERIVED, path, str(error), REBUILT)
        if compacted:
            markers = set(self._markers)
            for slot, row in enumerate(rows):
                if row.last_offset not in markers:
                    what = f"a row has offset {row.last_offset}, where the log has no ABORT marker"
                    return Finding(Severity.DERIVED, path, what, REBUILT, slot * ROW_SIZE)
            return None
        for slot in range(max(len(rows), len(self._numbers) // 4)):
            found = rows[slot] if slot < len(rows) else None
            numbers = self._numbers[4 * slot : 4 * slot + 4]
            expected = AbortedTransaction(*numbers) if numbers else None
            if found != expected:
                what = f"the file has {_row_text(found)}, but the log has {_row_text(expected)}"
                if data is None:
                    what = f"there is no such file, but the log has {_row_text(expected)}"
                return Finding(Severity.DERIVED, path, what, REBUILT, slot * ROW_SIZE)
        return None


def _row_text(row: AbortedTransaction | None) -> str:
    if row is None:
        return "no further abort"
    return (
        f"an abort of producer {row.producer_id} from offset {row.first_offset} to"
        f" {row.last_offset}, with last stable offset {row.last_stable_offset}"
    )


def check_snapshot(
    path: str, data: bytes, producers: Producers | None, first_offset: int
) -> Finding | None:
    """Return the problem of a `.snapshot`, None without one.

    `producers` is the state that the log from `first_offset` on gives for the snapshot's offset.
    With None, only the file itself is checked.
    """
    try:
        entries = decode_producer_snapshot(data)
    except (ProtocolError, UnknownRecordVersion) as error:
        return Finding(Severity.DERIVED, path, str(error), REBUILT)
    if producers is None:
        return None
    for entry in entries:
        problem = _differs(entry, producers, first_offset)
        if problem is not None:
            return Finding(Severity.DERIVED, path, problem, REBUILT)
    known = {entry.producer_id for entry in entries}
    for transaction in producers.ongoing_transactions():
        if transaction.producer_id not in known:
            what = (
                f"producer {transaction.producer_id} is missing; it has an open transaction"
                f" from offset {transaction.first_offset}"
            )
            return Finding(Severity.DERIVED, path, what, REBUILT)
    return None


def _differs(entry: ProducerEntry, producers: Producers, first_offset: int) -> str | None:
    if entry.last_offset < first_offset:
        return None  # its records are below the start of the log
    state = producers.entry(entry.producer_id)
    found = (entry.epoch, entry.last_sequence, entry.last_offset, entry.current_txn_first_offset)
    expected = None
    if state is not None:
        expected = (
            *(state.producer_epoch, state.last_sequence, state.last_offset),
            state.current_txn_first_offset,
        )
        found = (*found[:3], max(found[3], NONE))
    if found == expected:
        return None
    return (
        f"producer {entry.producer_id} has (epoch, sequence, offset, open from) {found}, but the"
        f" log gives {expected or 'no state of this producer'}"
    )
