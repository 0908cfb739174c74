"""The batch header, and the changes that a broker makes to a batch without reading its records."""

from __future__ import annotations

import struct
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.records.batch import (
    CONTROL_FLAG,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    add_to_sequence,
    build_batch,
    build_single_record_batch,
    compute_crc,
    patch_max_timestamp_and_log_append,
    patch_offsets,
    read_header,
    read_records,
    split_batches,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.errors import CorruptRecords, UnsupportedMagic
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.records.zigzag import SMALL_LIMIT
from tests.protocol.records.drawing import LIMIT, NEW_RECORDS, as_read

RECORDS = [NewRecord(1000 + i, b"key%d" % i, b"value" * i) for i in range(3)]
MAX_SEQUENCE = (1 << 31) - 1


@given(
    records=NEW_RECORDS,
    base_offset=st.integers(0, 1 << 62),
    compression=st.sampled_from(Compression),
    timestamp_type=st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]),
    producer_id=st.integers(-1, (1 << 63) - 1),
    producer_epoch=st.integers(-1, (1 << 15) - 1),
    base_sequence=st.integers(-1, MAX_SEQUENCE),
    is_transactional=st.booleans(),
)
def test_a_built_batch_is_read_as_it_was_built(
    records: list[NewRecord],
    base_offset: int,
    compression: Compression,
    timestamp_type: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=4,
        compression=compression,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.magic == 2
    assert header.crc == compute_crc(batch, 0, len(batch))
    assert header.partition_leader_epoch == 4
    assert header.records_count == len(records) == header.last_offset_delta + 1
    assert header.next_offset == header.last_offset + 1 == base_offset + len(records)
    assert header.compression is compression
    assert header.timestamp_type == timestamp_type
    assert header.is_transactional is is_transactional
    assert header.is_control is False
    assert header.has_producer_id is (producer_id >= 0)
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert header.base_sequence == base_sequence
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)
    expected = as_read(records, base_offset)
    if timestamp_type == LOG_APPEND_TIME:
        expected = [record._replace(timestamp=header.max_timestamp) for record in expected]
    assert read_records(batch, max_bytes=LIMIT) == expected


@pytest.mark.parametrize(
    ("base", "count", "last"),
    [
        (0, 1, 0),
        (MAX_SEQUENCE, 1, MAX_SEQUENCE),
        (MAX_SEQUENCE, 2, 0),
        (MAX_SEQUENCE - 1, 5, 2),
        (-1, 3, -1),
    ],
)
def test_sequence_numbers_wrap_to_0_after_2_31_minus_1(base: int, count: int, last: int) -> None:
    batch = build_batch([NewRecord(0, None, None)] * count, producer_id=1, base_sequence=base)
    assert read_header(batch).last_sequence == last


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, MAX_SEQUENCE))
def test_adding_to_a_sequence_number_follows_kafkas_rule(sequence: int, count: int) -> None:
    """The rule of DefaultRecordBatch.incrementSequence, which must not overflow an int32."""
    if sequence > MAX_SEQUENCE - count:
        expected = count - (MAX_SEQUENCE - sequence) - 1
    else:
        expected = sequence + count
    assert add_to_sequence(sequence, count) == expected


def test_a_batch_gets_its_base_offset_and_leader_epoch_without_a_new_crc() -> None:
    ahead = b"what is before a batch in a request"
    batch = build_batch(RECORDS)
    request = bytearray(ahead + batch)
    patch_offsets(memoryview(request), len(ahead), (1 << 40) + 7, 9)
    assert request[: len(ahead)] == ahead
    header = read_header(request, len(ahead))
    unplaced = read_header(batch)
    assert header == replace(unplaced, base_offset=(1 << 40) + 7, partition_leader_epoch=9)
    offsets = [r.offset for r in read_records(request, len(ahead), max_bytes=0)]
    assert offsets == [(1 << 40) + 7 + delta for delta in range(3)]


@pytest.mark.parametrize("compression", Compression)
def test_log_append_time_replaces_every_timestamp(compression: Compression) -> None:
    batch = build_batch(RECORDS, compression=compression, producer_id=5, is_transactional=True)
    patch_max_timestamp_and_log_append(batch, 0, 77_000)
    header = read_header(batch)
    assert header.timestamp_type == LOG_APPEND_TIME
    assert (header.max_timestamp, header.compression) == (77_000, compression)
    assert header.is_transactional
    assert [r.timestamp for r in read_records(batch, max_bytes=LIMIT)] == [77_000] * 3


def test_batches_are_split_where_they_end() -> None:
    batches = [build_batch(RECORDS[:n], base_offset=10 * n) for n in (1, 2, 3)]
    found = list(split_batches(b"".join(batches)))
    assert [position for position, _ in found] == [
        0,
        len(batches[0]),
        len(batches[0]) + len(batches[1]),
    ]
    assert [header.base_offset for _, header in found] == [10, 20, 30]
    assert list(split_batches(b"")) == []


def test_an_incomplete_last_batch_is_refused_or_left_out() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS, base_offset=3)
    for size in range(len(second)):
        buffer = bytes(first + second[:size])
        found = split_batches(buffer, allow_partial=True)
        assert [header.base_offset for _, header in found] == [0]
        if size:
            with pytest.raises(CorruptRecords):
                list(split_batches(buffer))


@pytest.mark.parametrize("batch_length", [-(1 << 31), -1, 0, 48])
def test_a_batch_shorter_than_its_header_is_refused(batch_length: int) -> None:
    batch = build_batch(RECORDS)
    batch[8:12] = batch_length.to_bytes(4, "big", signed=True)
    for allow_partial in (False, True):
        with pytest.raises(CorruptRecords):
            list(split_batches(batch, allow_partial=allow_partial))
    with pytest.raises(CorruptRecords):
        read_records(batch, max_bytes=LIMIT)


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_other_message_formats_are_recognized(magic: int) -> None:
    batch = build_batch(RECORDS)
    batch[16] = magic
    assert read_header(batch).magic == magic
    for read in (lambda: list(split_batches(batch)), lambda: read_records(batch, max_bytes=0)):
        with pytest.raises(UnsupportedMagic) as refused:
            read()
        assert refused.value.magic == magic


def test_an_old_message_shorter_than_a_header_is_recognized() -> None:
    old = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(17)
    with pytest.raises(UnsupportedMagic):
        list(split_batches(old))


def test_an_incomplete_header_is_refused() -> None:
    batch = bytes(build_batch(RECORDS))
    for size in range(HEADER_SIZE):
        with pytest.raises(CorruptRecords):
            read_header(batch[:size])


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused_on_use(codec: int) -> None:
    batch = build_batch(RECORDS)
    batch[22] = codec
    header = read_header(batch)
    with pytest.raises(CorruptRecords, match="codec"):
        _ = header.compression
    with pytest.raises(CorruptRecords, match="codec"):
        read_records(batch, max_bytes=LIMIT, check_crc=False)


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    header = read_header(build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0))
    batch = _packed(replace(header, batch_length=HEADER_SIZE - 12, records_count=0))
    assert read_records(batch, max_bytes=0, check_crc=False) == []


def test_a_batch_with_a_delete_horizon_shows_it() -> None:
    header = read_header(build_batch(RECORDS))
    assert replace(header, attributes=0x40, base_timestamp=123).delete_horizon_ms == 123


def test_a_batch_without_records_or_with_values_out_of_range_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])
    with pytest.raises(ValueError, match="out of range"):
        build_batch(RECORDS, producer_epoch=1 << 15)
    with pytest.raises(ValueError, match="out of range"):
        build_batch([NewRecord(1 << 63, None, None)])
    with pytest.raises(ValueError, match="int64"):
        build_batch([NewRecord(-(1 << 63), None, None), NewRecord(1 << 62, None, None)])


def _packed(header: BatchHeader) -> bytes:
    return struct.pack(">qiibIhiqqqhii", *astuple(header))


@pytest.mark.parametrize("size", range(SMALL_LIMIT - 16, SMALL_LIMIT + 2))
def test_both_builders_encode_the_same_lengths_around_small_limit(size: int) -> None:
    """Varints below SMALL_LIMIT come from a table. One record has a key of `size` bytes, another
    record has a value of `size` bytes. Both records are a few bytes longer than `size`."""
    for key, value in ((bytes(size), b""), (b"", bytes(size))):
        built = build_single_record_batch(0, key, value)
        assert built == build_batch([NewRecord(0, key, value)])
        (read,) = read_records(built, max_bytes=LIMIT)
        assert (read.key, read.value) == (key, value)


@given(
    st.integers(-1, 2**62),
    st.binary(max_size=3000),
    st.none() | st.binary(max_size=3000),
    st.integers(-1, 2**62),
    st.integers(-1, 2**15 - 1),
    st.booleans(),
)
def test_both_builders_encode_the_same_batch_of_one_record(
    timestamp: int,
    key: bytes,
    value: bytes | None,
    producer_id: int,
    producer_epoch: int,
    is_marker: bool,
) -> None:
    attributes = TRANSACTIONAL_FLAG | CONTROL_FLAG if is_marker else 0
    assert build_single_record_batch(
        timestamp,
        key,
        value,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    ) == build_batch(
        [NewRecord(timestamp, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_marker,
        is_control=is_marker,
    )
