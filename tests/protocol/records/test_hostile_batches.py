"""Reading any bytes as a batch returns all its records or raises CorruptRecords."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.records.batch import HEADER_SIZE, build_batch, read_header, read_records
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord, Record, decode_records
from oncelog_protocol.records.zigzag import encode_varint
from tests.examples import examples
from tests.protocol.records.drawing import INT64, KEYS, LIMIT, NEW_RECORDS, as_read

RECORDS = [
    NewRecord(1000, b"key", b"value", (("one", b"1"), ("two", None))),
    NewRecord(999, None, None),
    NewRecord(5_000_000, b"", b"x" * 70, (("", b""),)),
]


def decode(
    data: bytes, count: int = 1, *, last_offset_delta: int | None = None, base_timestamp: int = 0
) -> list[Record]:
    return decode_records(
        data,
        count,
        base_offset=100,
        last_offset_delta=count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
    )


def record(
    *,
    length: int | None = None,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    key_length: int = -1,
    value_length: int = -1,
    tail: bytes = b"\0",
) -> bytes:
    """Return a record with these numbers. Without `length`, its length is correct."""
    body = (
        b"\0"
        + encode_varint(timestamp_delta)
        + encode_varint(offset_delta)
        + encode_varint(key_length)
        + encode_varint(value_length)
        + tail
    )
    return encode_varint(len(body) if length is None else length) + body


def test_the_record_of_these_tests_is_valid_unless_changed() -> None:
    assert decode(record()) == [Record(100, 0, None, None)]


@pytest.mark.parametrize("compression", Compression)
def test_every_prefix_of_a_batch_is_refused(compression: Compression) -> None:
    batch = bytes(build_batch(RECORDS, compression=compression))
    for size in range(len(batch)):
        for check_crc in (False, True):
            with pytest.raises(CorruptRecords):
                read_records(batch[:size], max_bytes=LIMIT, check_crc=check_crc)


@pytest.mark.parametrize("compression", Compression)
def test_every_corrupt_byte_is_found_by_the_crc(compression: Compression) -> None:
    """The base offset and the leader epoch are exempt, because the CRC does not cover them. Other
    checks find a corrupt length or magic."""
    batch = build_batch(RECORDS, compression=compression)
    for position in (*range(8, 12), *range(16, len(batch))):
        batch[position] ^= 0x40
        with pytest.raises(CorruptRecords):
            read_records(batch, max_bytes=LIMIT)
        batch[position] ^= 0x40


@pytest.mark.parametrize("compression", Compression)
def test_without_a_crc_check_a_corrupt_byte_never_adds_records(compression: Compression) -> None:
    original = build_batch(RECORDS, compression=compression)
    for position in range(len(original)):
        corrupt = bytearray(original)
        for value in range(0, 256, 1 if compression is Compression.NONE else 15):
            corrupt[position] = value
            with suppress(CorruptRecords):
                assert len(read_records(corrupt, max_bytes=4096, check_crc=False)) <= 3


@settings(max_examples=examples(500))
@given(st.binary(max_size=60), st.integers(-3, 9), st.integers(-3, 9), INT64)
def test_records_decoded_from_noise_have_valid_offsets_and_timestamps(
    noise: bytes, count: int, last_offset_delta: int, base_timestamp: int
) -> None:
    with suppress(CorruptRecords):
        records = decode(
            noise, count, last_offset_delta=last_offset_delta, base_timestamp=base_timestamp
        )
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert all(100 <= offset <= 100 + last_offset_delta for offset in offsets)
        assert all(-(1 << 63) <= record.timestamp < 1 << 63 for record in records)


@given(NEW_RECORDS, st.binary(min_size=1, max_size=9))
def test_nothing_may_follow_the_last_record(records: list[NewRecord], garbage: bytes) -> None:
    batch = build_batch(records)
    whole = bytearray(batch + garbage)
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    assert read_records(batch, max_bytes=0) == as_read(records)
    with pytest.raises(CorruptRecords, match="after the last record"):
        read_records(whole, max_bytes=0, check_crc=False)


@pytest.mark.parametrize("count", [-1, -(1 << 31), 0, 1, 2, 4, 5, 1000, (1 << 31) - 1])
@pytest.mark.parametrize("compression", Compression)
def test_h43_h46_a_wrong_record_count_is_refused_in_bounded_memory(
    count: int, compression: Compression
) -> None:
    batch = build_batch(RECORDS, compression=compression)
    struct.pack_into(">i", batch, HEADER_SIZE - 4, count)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            read_records(batch, max_bytes=4096, check_crc=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_a_record_beyond_the_last_offset_of_the_header_is_refused() -> None:
    batch = build_batch(RECORDS)
    for delta in (-1, 0, 1):
        struct.pack_into(">i", batch, 23, delta)
        with pytest.raises(CorruptRecords, match="last offset"):
            read_records(batch, max_bytes=0, check_crc=False)
    struct.pack_into(">i", batch, 23, 7)
    assert read_header(batch).last_offset == 7, "compaction removed the records at the end"
    assert len(read_records(batch, max_bytes=0, check_crc=False)) == 3


@pytest.mark.parametrize(
    ("deltas", "good"),
    [((0, 1, 2), True), ((0, 5, 9), True), ((1, 0, 2), False), ((0, 0, 1), False)],
)
def test_h43_records_with_offsets_that_do_not_rise_are_refused(
    deltas: tuple[int, ...], good: bool
) -> None:
    data = b"".join(record(offset_delta=delta) for delta in deltas)
    if good:
        offsets = [r.offset for r in decode(data, 3, last_offset_delta=9)]
        assert offsets == [100 + delta for delta in deltas]
    else:
        with pytest.raises(CorruptRecords, match="rise"):
            decode(data, 3, last_offset_delta=9)


@pytest.mark.parametrize(
    "spoiled",
    [
        record(length=-1),
        record(length=-7),
        record(length=0),
        record(length=5),
        record(length=7),
        record(length=(1 << 31) - 1),
        record(offset_delta=-1),
        record(offset_delta=-100),
        record(offset_delta=1 << 31),
        record(key_length=-2),
        record(key_length=1),
        record(key_length=(1 << 31) - 1),
        record(key_length=-(1 << 31)),
        record(value_length=-2),
        record(value_length=2),
        record(value_length=(1 << 31) - 1),
        record(tail=encode_varint(-1)),
        record(tail=encode_varint(1)),
        record(tail=encode_varint((1 << 31) - 1)),
        record(tail=encode_varint(1) + encode_varint(-1) + encode_varint(0)),
        record(tail=encode_varint(1) + encode_varint(-2) + encode_varint(0)),
        record(tail=encode_varint(1) + encode_varint(0) + encode_varint(-2)),
        record(tail=encode_varint(1) + encode_varint(9) + encode_varint(0)),
        record(tail=encode_varint(1) + encode_varint(0) + encode_varint((1 << 31) - 1)),
        record(tail=encode_varint(2) + encode_varint(0) * 2 + encode_varint(0)),
        record() + b"\0",
        b"\0" * 7,
        b"\xff" * 20,
        b"\x80" * 20,
    ],
)
def test_h46_a_corrupt_record_is_refused(spoiled: bytes) -> None:
    with pytest.raises(CorruptRecords):
        decode(spoiled)


@pytest.mark.parametrize("base", [0, 1 << 62, (1 << 63) - 1, -(1 << 63), -1])
@pytest.mark.parametrize("delta", [0, 1, -1, 63, -64, 64, (1 << 63) - 1, -(1 << 63)])
def test_h47_timestamps_stay_within_an_int64(base: int, delta: int) -> None:
    data = record(timestamp_delta=delta)
    if -(1 << 63) <= base + delta < 1 << 63:
        assert decode(data, base_timestamp=base)[0].timestamp == base + delta
    else:
        with pytest.raises(CorruptRecords, match="timestamp"):
            decode(data, base_timestamp=base)


@given(st.binary(min_size=1, max_size=8), KEYS)
def test_a_headers_key_may_be_any_bytes(key: bytes, value: bytes | None) -> None:
    """Kafka accepts keys that are not UTF-8, and we pass them on unchanged."""
    tail = encode_varint(1) + encode_varint(len(key)) + key
    tail += encode_varint(-1) if value is None else encode_varint(len(value)) + value
    data = record(tail=tail)
    (read,) = decode(data)
    rebuilt = build_batch([NewRecord(read.timestamp, read.key, read.value, read.headers)])
    assert bytes(rebuilt[HEADER_SIZE:]) == data
