"""A read_committed reader gets exactly the records of committed transactions and the
non-transactional records."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.isolation import AbortedRange, visible_batches
from oncelog_protocol.records.batch import ATTRIBUTES_POSITION, CONTROL_FLAG, build_batch
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord

# The position of the key in the batch of a marker, after the header of the batch and five bytes of
# the record.
KEY_OF_MARKER = 66


@dataclass
class Log:
    """The bytes of a partition, and the expected records."""

    data: bytearray = field(default_factory=bytearray)
    next_offset: int = 0
    open: dict[int, int] = field(default_factory=dict)
    written: dict[int, list[int]] = field(default_factory=dict)
    aborted: list[AbortedRange] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)
    all_data: set[int] = field(default_factory=set)
    batch_starts: list[tuple[int, int]] = field(default_factory=list)

    def append(self, producer_id: int, count: int, *, transactional: bool) -> None:
        records = [NewRecord(0, None, b"%d" % (self.next_offset + n)) for n in range(count)]
        offsets = list(range(self.next_offset, self.next_offset + count))
        self.batch_starts.append((self.next_offset, len(self.data)))
        self.data += build_batch(
            records,
            base_offset=self.next_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=transactional,
        )
        self.all_data.update(offsets)
        if transactional:
            self.open.setdefault(producer_id, self.next_offset)
            self.written.setdefault(producer_id, []).extend(offsets)
        else:
            self.committed.update(offsets)
        self.next_offset += count

    def end(self, producer_id: int, *, committed: bool) -> None:
        self.batch_starts.append((self.next_offset, len(self.data)))
        self.data += build_marker_batch(
            EndTransactionMarker(committed, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=0,
            base_offset=self.next_offset,
        )
        self.next_offset += 1
        first = self.open.pop(producer_id, None)
        offsets = self.written.pop(producer_id, [])
        if committed:
            self.committed.update(offsets)
        elif first is not None:
            self.aborted.append(AbortedRange(first, producer_id))

    def close(self) -> None:
        """Commit all open transactions, because a broker's response ends at the last stable
        offset."""
        for producer_id in tuple(self.open):
            self.end(producer_id, committed=True)


def read(log: Log, offset: int, *, read_committed: bool) -> tuple[list[int], int]:
    start = max((at for at in log.batch_starts if at[0] <= offset), default=(0, 0))
    seen: list[int] = []
    position = offset
    for batch in visible_batches(
        log.data[start[1] :],
        offset,
        read_committed=read_committed,
        # A broker lists only transactions that end at or after the start of the response. In these
        # tests all aborted transactions do.
        aborted=log.aborted if read_committed else (),
        max_batch_bytes=1 << 20,
    ):
        seen += [record.offset for record in batch.records]
        assert all(record.value == b"%d" % record.offset for record in batch.records)
        position = batch.next_offset
    return seen, position


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("transactional"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("abort"), st.integers(1, 3), st.just(0)),
    ),
    max_size=25,
)


def build(steps: list[tuple[str, int, int]], *, close: bool = True) -> Log:
    log = Log()
    for kind, producer_id, count in steps:
        if kind in ("commit", "abort"):
            log.end(producer_id, committed=kind == "commit")
        elif kind == "transactional":
            log.append(producer_id, count, transactional=True)
        elif producer_id not in log.open:
            log.append(producer_id + 10, count, transactional=False)
    if close:
        log.close()
    return log


@given(STEPS)
def test_read_committed_shows_committed_records_only(steps: list[tuple[str, int, int]]) -> None:
    log = build(steps)
    seen, position = read(log, 0, read_committed=True)
    assert seen == sorted(log.committed)
    assert position == log.next_offset


@given(STEPS, st.integers(0, 60))
def test_read_uncommitted_shows_all_records_but_markers_from_any_offset(
    steps: list[tuple[str, int, int]], offset: int
) -> None:
    log = build(steps)
    offset = min(offset, log.next_offset)
    seen, position = read(log, offset, read_committed=False)
    assert seen == sorted(at for at in log.all_data if at >= offset)
    assert position == log.next_offset


def test_a_read_that_starts_inside_an_aborted_transaction_skips_the_rest_of_it() -> None:
    log = Log()
    log.append(1, 4, transactional=True)
    log.append(1, 2, transactional=True)
    log.end(1, committed=False)
    log.append(1, 1, transactional=True)
    log.end(1, committed=True)
    assert read(log, 2, read_committed=True) == ([7], 9)
    assert read(log, 5, read_committed=True) == ([7], 9)


def test_a_cut_off_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    log = build([("plain", 1, 2), ("plain", 1, 2)])
    log.data = log.data[:-1]
    assert read(log, 0, read_committed=True) == ([0, 1], 2)


def test_a_corrupt_batch_raises_after_the_batches_before_it() -> None:
    log = build([("plain", 1, 2), ("plain", 1, 2)])
    log.data[-1] ^= 1
    batches = visible_batches(log.data, 0, read_committed=True, max_batch_bytes=1 << 20)
    assert [record.offset for record in next(batches).records] == [0, 1]
    with pytest.raises(CorruptRecords):
        next(batches)


def aborted_and_committed() -> Log:
    """Return a log with an aborted and then a committed transaction of one producer."""
    log = Log()
    log.append(1, 1, transactional=True)
    log.end(1, committed=False)
    log.append(1, 1, transactional=True)
    log.end(1, committed=True)
    return log


def visible(log: Log, *, read_committed: bool = True, check_crcs: bool = True) -> list[int]:
    batches = visible_batches(
        log.data,
        0,
        read_committed=read_committed,
        aborted=log.aborted,
        max_batch_bytes=1 << 20,
        check_crcs=check_crcs,
    )
    return [record.offset for batch in batches for record in batch.records]


def test_a_damaged_abort_marker_does_not_hide_the_next_transaction_of_its_producer() -> None:
    log = aborted_and_committed()
    _, marker = log.batch_starts[1]
    # The type of the marker: the abort becomes a commit.
    log.data[marker + KEY_OF_MARKER + 3] ^= 1
    with pytest.raises(CorruptRecords):
        visible(log)
    assert visible(log, check_crcs=False) == []


@pytest.mark.parametrize("read_committed", [True, False])
def test_damaged_attributes_do_not_make_a_marker_of_committed_records(read_committed: bool) -> None:
    log = aborted_and_committed()
    _, data = log.batch_starts[2]
    log.data[data + ATTRIBUTES_POSITION + 1] ^= CONTROL_FLAG
    with pytest.raises(CorruptRecords):
        visible(log, read_committed=read_committed)


def test_every_bit_that_is_damaged_in_a_batch_is_found() -> None:
    """The CRC covers the bytes from the attributes on."""
    log = aborted_and_committed()
    ends = [*(start for _, start in log.batch_starts[1:]), len(log.data)]
    for (_, start), end in zip(log.batch_starts, ends, strict=True):
        for position in range(start + ATTRIBUTES_POSITION, end):
            for bit in range(8):
                log.data[position] ^= 1 << bit
                with pytest.raises(CorruptRecords):
                    visible(log)
                log.data[position] ^= 1 << bit
    assert visible(log) == [2]
