"""The requirements of a batch (scenarios H40-H50): a table of invalid batches, and the checks that
depend on a topic's settings."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch, read_header, read_records
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import AppendError, InvalidRecords
from oncelog_server.log.record_rules import MAX_RECORD_ERRORS
from oncelog_server.log.results import Origin
from oncelog_server.slices import at_its_end
from tests.server.log.driver import MANY, NOW_MS, Driver, batch

DEFAULT = LogConfig()
HOUR_MS = 3_600_000


def changed(position: int, form: str, value: int, *, sealed: bool = True) -> bytearray:
    """Return a valid batch with one field changed. If `sealed`, its CRC is computed again."""
    data = batch(3)
    struct.pack_into(">" + form, data, position, value)
    return seal(data) if sealed else data


def seal(data: bytearray) -> bytearray:
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def empty() -> bytearray:
    """Return a batch of zero records, with a matching count and last offset delta."""
    data = batch(1)
    struct.pack_into(">i", data, 23, -1)
    struct.pack_into(">i", data, 57, 0)
    return seal(data)


MARKER = build_marker_batch(
    EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS
)

BAD: dict[str, tuple[Callable[[], bytearray], ErrorCode]] = {
    "CRC": (lambda: changed(17, "I", 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "a flipped value": (lambda: changed(80, "b", 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (lambda: changed(16, "b", 0), ErrorCode.INVALID_RECORD),
    "magic 1": (lambda: changed(16, "b", 1), ErrorCode.INVALID_RECORD),
    "magic 3": (lambda: changed(16, "b", 3), ErrorCode.CORRUPT_MESSAGE),
    "magic 127": (lambda: changed(16, "b", 127), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (lambda: changed(16, "b", -1), ErrorCode.CORRUPT_MESSAGE),
    "codec 5": (lambda: changed(21, "h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": (lambda: changed(21, "h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "delete horizon": (lambda: changed(21, "h", 0x40), ErrorCode.INVALID_RECORD),
    "unknown attribute": (lambda: changed(21, "h", 0x80), ErrorCode.INVALID_RECORD),
    "negative attributes": (lambda: changed(21, "h", -32768), ErrorCode.INVALID_RECORD),
    "LogAppendTime": (lambda: changed(21, "h", 8), ErrorCode.INVALID_TIMESTAMP),
    "control": (lambda: bytearray(MARKER), ErrorCode.INVALID_RECORD),
    "transactional, no producer": (lambda: changed(21, "h", 16), ErrorCode.INVALID_RECORD),
    "nothing": (bytearray, ErrorCode.INVALID_RECORD),
    "half a header": (lambda: batch(3)[:40], ErrorCode.INVALID_RECORD),
    "half a batch": (lambda: batch(3)[:-1], ErrorCode.INVALID_RECORD),
    "trailing byte": (lambda: batch(3) + b"\0", ErrorCode.INVALID_RECORD),
    "two batches": (lambda: batch(3) + batch(1), ErrorCode.INVALID_RECORD),
    "length 0": (lambda: changed(8, "i", 0), ErrorCode.CORRUPT_MESSAGE),
    "length -1": (lambda: changed(8, "i", -1), ErrorCode.CORRUPT_MESSAGE),
    "length 2^31-1": (lambda: changed(8, "i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "last delta": (lambda: changed(23, "i", 1), ErrorCode.INVALID_RECORD),
    "negative delta": (lambda: changed(23, "i", -1), ErrorCode.INVALID_RECORD),
    "count 0": (lambda: changed(57, "i", 0), ErrorCode.INVALID_RECORD),
    "no records": (empty, ErrorCode.INVALID_RECORD),
    "count -1": (lambda: changed(57, "i", -1), ErrorCode.INVALID_RECORD),
    "count 2^31-1": (lambda: changed(57, "i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "producer without sequence": (
        lambda: batch(1, producer_id=1, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "producer without epoch": (
        lambda: batch(1, producer_id=1, base_sequence=0),
        ErrorCode.INVALID_RECORD,
    ),
    "far ahead": (lambda: batch(1, timestamp=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP),
    "the last ms": (lambda: changed(35, "q", 2**63 - 1), ErrorCode.INVALID_TIMESTAMP),
    "before 1970": (lambda: changed(35, "q", -2), ErrorCode.INVALID_TIMESTAMP),
    "base offset 77": (lambda: batch(2, base_offset=77), ErrorCode.INVALID_RECORD),
    "base offset -1": (lambda: batch(2, base_offset=-1), ErrorCode.INVALID_RECORD),
    "first before 1970": (lambda: changed(27, "q", -2), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("view", [False, True])
def test_h40_h41_h42_h43_h47_h48_a_bad_batch_is_refused_and_changes_nothing(
    name: str, view: bool
) -> None:
    driver = Driver(DEFAULT)
    driver.plain(2)
    size = driver.log.size_bytes
    make, code = BAD[name]
    data: Any = memoryview(make()) if view else make()
    with pytest.raises(AppendError) as refused:
        driver.append(data)
    assert refused.value.code == code
    assert driver.log.log_end_offset == 2
    assert driver.log.size_bytes == size
    assert not len(driver.log.producers)


def test_the_leader_epoch_of_a_batch_is_overwritten_whatever_it_was() -> None:
    driver = Driver(DEFAULT)
    driver.plain(2)
    assert driver.append(batch(2, leader_epoch=9)).base_offset == 2
    header = read_header(bytes(driver.files.nodes[driver.log.segments.active.log.path].data), 0)
    assert header.partition_leader_epoch == 0


@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_h50_the_largest_batch_has_max_message_bytes(excess: int) -> None:
    data = batch(1, size=500)
    driver = Driver(replace(DEFAULT, max_message_bytes=len(data) - excess))
    if excess <= 0:
        driver.append(data)
        return
    with pytest.raises(AppendError) as refused:
        driver.append(data)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_largest_batch_fills_a_segment() -> None:
    data = batch(1, size=500)
    Driver(replace(DEFAULT, segment_bytes=len(data))).append(data)
    driver = Driver(replace(DEFAULT, segment_bytes=len(data) - 1))
    with pytest.raises(AppendError) as refused:
        driver.append(data)
    assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


def stored(driver: Driver) -> bytes:
    return bytes(driver.files.nodes[driver.log.segments.active.log.path].data)


def test_log_append_time_is_the_broker_s_and_the_crc_is_correct_again() -> None:
    driver = Driver(replace(DEFAULT, message_timestamp_type="LogAppendTime"))
    answer = driver.plain(3, timestamp=5)
    assert answer.log_append_time_ms == NOW_MS
    records = read_records(stored(driver), max_bytes=MANY)
    assert [record.timestamp for record in records] == [NOW_MS] * 3
    assert at_its_end(driver.log.max_timestamp_offset()) == (NOW_MS, 0, 0)


def test_a_repeated_batch_has_the_log_append_time_of_the_first() -> None:
    driver = Driver(replace(DEFAULT, message_timestamp_type="LogAppendTime"))
    driver.send(1, 0, 1)
    driver.now_ms += 500
    assert driver.send(1, 0, 1).log_append_time_ms == NOW_MS


def test_k6_the_age_limit_applies_to_every_record() -> None:
    driver = Driver(replace(DEFAULT, message_timestamp_before_max_ms=1000))
    old = [NewRecord(NOW_MS - age, None, b"v") for age in (0, 1001, 5)]
    with pytest.raises(AppendError) as refused:
        driver.append(build_batch(old, compression=Compression.LZ4))
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP
    driver.append(build_batch([NewRecord(NOW_MS - 1000, None, b"v")]))
    driver.append(build_batch([NewRecord(-1, None, b"v")]))


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    driver = Driver(replace(DEFAULT, cleanup_policy=frozenset({"compact"})))
    mixed = [NewRecord(NOW_MS, b"k", b"v"), NewRecord(NOW_MS, None, b"v")]
    with pytest.raises(AppendError) as refused:
        driver.append(build_batch(mixed))
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert isinstance(refused.value, InvalidRecords)
    assert [error.index for error in refused.value.errors] == [1]
    driver.append(build_batch(mixed[:1]))
    driver.mark(1)


def test_record_errors_are_left_out_if_too_many_records_are_faulty() -> None:
    driver = Driver(replace(DEFAULT, cleanup_policy=frozenset({"compact"})))
    for count in (MAX_RECORD_ERRORS, MAX_RECORD_ERRORS + 1):
        with pytest.raises(InvalidRecords, match=f"due to {count} record errors") as refused:
            driver.append(build_batch([NewRecord(NOW_MS, None, b"")] * count))
        assert len(refused.value.errors) == (count if count == MAX_RECORD_ERRORS else 0)
        assert refused.value.message.count("batchIndex=") == 3


@pytest.mark.parametrize("there", list(Compression))
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_batches_are_stored_with_the_topics_codec(there: Compression, wanted: str) -> None:
    driver = Driver(replace(DEFAULT, compression_type=wanted))
    records = [NewRecord(NOW_MS - n, b"k%d" % n, b"v" * 50, (("h", b"x"),)) for n in range(5)]
    before = build_batch(
        records, compression=there, producer_id=3, producer_epoch=1, base_sequence=4,
        is_transactional=True,
    )  # fmt: skip
    expected = read_records(before, max_bytes=MANY)
    driver.append(before)
    header = read_header(stored(driver))
    assert read_records(stored(driver), max_bytes=MANY) == expected
    names = {"producer": there.kafka_name, "uncompressed": "none"}
    assert header.compression.kafka_name == names.get(wanted, wanted)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 4)
    assert header.is_transactional


def test_a_new_codec_changes_only_the_codec_and_the_sizes() -> None:
    driver = Driver(replace(DEFAULT, compression_type="gzip"))
    records = [NewRecord(NOW_MS + delta, b"k", b"v") for delta in (5, 900, 3)]
    before = build_batch(records, producer_id=3, producer_epoch=1, base_sequence=0)
    driver.append(bytearray(before))
    old, new = read_header(before), read_header(stored(driver))
    assert (new.compression, new.attributes ^ Compression.GZIP) == (Compression.GZIP, 0)
    assert new.max_timestamp == NOW_MS + 900
    ignored = {"attributes": 0, "batch_length": 0, "crc": 0, "partition_leader_epoch": 0}
    assert dataclasses.replace(new, **ignored) == dataclasses.replace(old, **ignored)


def inner_nonsense() -> bytearray:
    """Return a batch with a valid header and CRC, and invalid records."""
    data = batch(2)
    data[61:] = b"\x07" * (len(data) - 61)
    return seal(data)


def test_records_are_decoded_only_if_a_setting_requires_it() -> None:
    Driver(DEFAULT).append(inner_nonsense())
    driver = Driver(replace(DEFAULT, validate_records=True))
    with pytest.raises(AppendError) as refused:
        driver.append(inner_nonsense())
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_h44_a_decompression_bomb_is_stopped() -> None:
    driver = Driver(replace(DEFAULT, validate_records=True))
    bomb = build_batch([NewRecord(NOW_MS, b"k", bytes(20 << 20))], compression=Compression.ZSTD)
    assert len(bomb) < 10_000
    with pytest.raises(AppendError, match="decompress") as refused:
        driver.append(bomb)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_a_coordinators_batch_is_only_checked_for_its_size() -> None:
    driver = Driver(replace(DEFAULT, max_message_bytes=200))
    driver.append(batch(1, producer_id=1, producer_epoch=0), Origin.COORDINATOR)
    with pytest.raises(AppendError) as refused:
        driver.append(batch(1, size=200), Origin.COORDINATOR)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_k6_a_record_exactly_one_hour_ahead_is_accepted() -> None:
    driver = Driver(DEFAULT)
    driver.plain(1, timestamp=NOW_MS + HOUR_MS)
    assert driver.log.log_end_offset == 1


def test_an_unknown_codec_in_the_settings_is_refused() -> None:
    driver = Driver(DEFAULT)
    with pytest.raises(ValueError, match="brotli"):
        driver.log.reconfigure(replace(DEFAULT, compression_type="brotli"))
    assert driver.log.config is DEFAULT
