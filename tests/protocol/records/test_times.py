"""The times of a batch's records are those that a reader of its records gets."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.records.batch import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    build_batch,
    read_header,
    read_records,
    write_header,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.records.retained import build_empty_batch
from oncelog_protocol.records.times import record_times
from tests.examples import examples
from tests.protocol.records.drawing import LIMIT, NEW_RECORDS

BATCH = build_batch([NewRecord(1000 + n, b"key", b"value") for n in range(3)], base_offset=7)


@given(NEW_RECORDS, st.sampled_from(Compression), st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]))
def test_times_are_those_of_the_records(
    records: list[NewRecord], compression: Compression, timestamp_type: int
) -> None:
    batch = build_batch(
        records, base_offset=1 << 40, compression=compression, timestamp_type=timestamp_type
    )
    read = read_records(batch, max_bytes=LIMIT)
    times = [*record_times(batch, max_bytes=LIMIT)]
    assert times == [(record.offset, record.timestamp) for record in read]


@pytest.mark.parametrize("compression", Compression)
def test_an_empty_batch_has_no_times(compression: Compression) -> None:
    full = build_batch([NewRecord(1, None, None)], compression=compression)
    empty = build_empty_batch(read_header(full))
    assert [*record_times(empty, max_bytes=LIMIT)] == []


@pytest.mark.parametrize("count", [-1, 2, 4, 1 << 30])
def test_a_wrong_count_is_refused(count: int) -> None:
    batch = bytearray(BATCH)
    header = read_header(batch)
    header.records_count = count
    write_header(batch, header)
    with pytest.raises(CorruptRecords):
        [*record_times(batch, max_bytes=LIMIT)]


def test_an_offset_beyond_the_batch_is_refused() -> None:
    batch = bytearray(BATCH)
    header = read_header(batch)
    header.last_offset_delta = 1
    write_header(batch, header)
    with pytest.raises(CorruptRecords):
        [*record_times(batch, max_bytes=LIMIT)]


@pytest.mark.parametrize("compression", Compression)
def test_every_prefix_of_a_batch_is_refused(compression: Compression) -> None:
    records = [NewRecord(1000, b"key", b"value"), NewRecord(5_000_000, None, b"x" * 70)]
    batch = bytes(build_batch(records, compression=compression))
    for size in range(len(batch)):
        with pytest.raises(CorruptRecords):
            [*record_times(batch[:size], max_bytes=LIMIT)]


@settings(max_examples=examples(500))
@given(st.lists(st.tuples(st.integers(12, len(BATCH) - 1), st.integers(0, 255)), max_size=4))
def test_damaged_bytes_give_times_or_are_refused(damage: list[tuple[int, int]]) -> None:
    """A reader that takes the times it wants before the damage gets no other error either."""
    batch = bytearray(BATCH)
    for position, byte in damage:
        batch[position] = byte
    with suppress(CorruptRecords):
        for offset, timestamp in islice(record_times(bytes(batch), max_bytes=LIMIT), 10_000):
            assert offset >= 7
            assert -(1 << 63) <= timestamp < 1 << 63
