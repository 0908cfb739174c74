"""A batch that was prepared in steps is appended, or refused, as if it had been checked at the
append."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import HEADER_SIZE, build_batch, read_header
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import NewRecord
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import AppendError, InvalidRecords
from oncelog_server.log.record_rules import STEP_RECORDS
from oncelog_server.log.validation import BatchRules, PreparedBatch
from oncelog_server.slices import at_its_end
from tests.server.between_steps import Calls
from tests.server.log.driver import NOW_MS, Driver, batch
from tests.server.log.test_validation import BAD, inner_nonsense, stored

HOUR_MS: Final = 3_600_000
DEFAULT: Final = LogConfig()
COMPACTED: Final = replace(DEFAULT, cleanup_policy=frozenset({"compact"}))
CONFIGS: Final = {
    "default": DEFAULT,
    "compacted": COMPACTED,
    "validated": replace(DEFAULT, validate_records=True),
    "young": replace(DEFAULT, message_timestamp_before_max_ms=HOUR_MS),
    "append time": replace(COMPACTED, message_timestamp_type="LogAppendTime"),
    **{
        f"as {name}": replace(DEFAULT, compression_type=name)
        for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd")
    },
}
LARGE: Final = 4 * STEP_RECORDS
BATCHES: Final[dict[str, Callable[[], bytearray]]] = {
    **{name: make for name, (make, _) in BAD.items()},
    "nonsense": inner_nonsense,
    "good": lambda: batch(5),
    "without keys": lambda: build_batch([NewRecord(NOW_MS, None, b"v")] * 3),
    "old": lambda: batch(3, timestamp=NOW_MS - 2 * HOUR_MS),
    "without timestamps": lambda: build_batch([NewRecord(-1, b"k", b"v")] * 3),
    "lz4": lambda: batch(LARGE, compression=Compression.LZ4),
    "gzip": lambda: batch(LARGE, compression=Compression.GZIP),
}


def prepared(driver: Driver, data: Any) -> PreparedBatch | None:
    if len(data) < HEADER_SIZE:
        return None
    return at_its_end(driver.log.rules.prepare(data, driver.now_ms, read_header(data)))


def outcome(driver: Driver, data: Any, ready: PreparedBatch | None) -> tuple[Any, bytes]:
    """Append the batch. Return the result, or the error, and the bytes of the log."""
    found: Any
    try:
        found = driver.log.append(data, 0, driver.now_ms, prepared=ready)
    except InvalidRecords as error:
        found = (error.code, error.message, error.errors)
    except AppendError as error:
        found = (error.code, error.message)
    return found, stored(driver)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", BATCHES)
def test_a_prepared_batch_has_the_outcome_of_any_other_batch(config: str, name: str) -> None:
    steps, whole = Driver(CONFIGS[config]), Driver(CONFIGS[config])
    data, again = BATCHES[name](), BATCHES[name]()
    assert outcome(steps, data, prepared(steps, data)) == outcome(whole, again, None)


@given(
    keys=st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=12),
    ages=st.data(),
    codec=st.sampled_from(Compression),
    config=st.sampled_from(sorted(CONFIGS)),
)
def test_any_records_have_the_same_outcome(
    keys: list[bytes | None], ages: st.DataObject, codec: Compression, config: str
) -> None:
    times = st.sampled_from([-1, NOW_MS, NOW_MS - 2 * HOUR_MS, NOW_MS + 2 * HOUR_MS])
    records = [NewRecord(ages.draw(times), key, b"v") for key in keys]
    steps, whole = Driver(CONFIGS[config]), Driver(CONFIGS[config])
    data, again = build_batch(records, compression=codec), build_batch(records, compression=codec)
    assert outcome(steps, data, prepared(steps, data)) == outcome(whole, again, None)


def test_a_batch_prepared_by_earlier_rules_is_checked_again() -> None:
    driver = Driver(DEFAULT)
    data = build_batch([NewRecord(NOW_MS, None, b"v")] * 3)
    ready = prepared(driver, data)
    driver.log.reconfigure(COMPACTED)
    with pytest.raises(InvalidRecords):
        driver.log.append(data, 0, NOW_MS, prepared=ready)
    refused = prepared(driver, data)
    driver.log.reconfigure(DEFAULT)
    assert driver.log.append(data, 0, NOW_MS, prepared=refused).last_offset == 2


def test_the_time_of_the_append_is_the_log_append_time() -> None:
    driver = Driver(CONFIGS["append time"])
    data = batch(LARGE)
    ready = prepared(driver, data)
    driver.now_ms += 500
    assert driver.log.append(data, 0, driver.now_ms, prepared=ready).log_append_time_ms == (
        NOW_MS + 500
    )
    assert read_header(stored(driver)).max_timestamp == NOW_MS + 500


def test_a_repeated_batch_is_a_duplicate_also_if_it_was_prepared() -> None:
    driver = Driver(COMPACTED)
    for is_repeated in (False, True):
        data = batch(LARGE, producer_id=1, producer_epoch=0, base_sequence=0)
        appended = driver.log.append(data, 0, NOW_MS, prepared=prepared(driver, data))
        assert appended.duplicate is is_repeated
    assert driver.log.log_end_offset == LARGE


@pytest.mark.parametrize(
    ("config", "is_slow"),
    [(name, name not in ("default", "as uncompressed")) for name in CONFIGS],
)
def test_a_batch_is_slow_only_if_its_records_are_needed(config: str, is_slow: bool) -> None:
    rules = BatchRules(CONFIGS[config], "t-0")
    header = read_header(batch(LARGE))
    assert rules.is_slow(header, NOW_MS) is is_slow
    assert not rules.is_slow(read_header(batch(STEP_RECORDS)), NOW_MS)


def test_a_batch_with_late_timestamps_is_slow_everywhere() -> None:
    """Only its records show which of them are too new (KIP-467)."""
    rules = BatchRules(DEFAULT, "t-0")
    assert rules.is_slow(read_header(batch(LARGE, timestamp=NOW_MS + 2 * HOUR_MS)), NOW_MS)


@pytest.mark.parametrize("config", ["compacted", "as gzip"])
@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS + 2 * HOUR_MS])
def test_no_step_of_a_preparation_is_long(config: str, timestamp: int) -> None:
    data = batch(20 * STEP_RECORDS, timestamp=timestamp)
    calls = Calls()
    rules = BatchRules(CONFIGS[config], "t-0")
    result: PreparedBatch = at_its_end(
        calls.counted(rules.prepare(data, NOW_MS, read_header(data)))
    )
    assert (result.error is None) is (timestamp == NOW_MS)
    assert calls.steps > 20
    # About six calls for each record of a step.
    assert calls.most < 10 * STEP_RECORDS


def test_a_refused_batch_lists_no_more_records_than_a_response_may_have() -> None:
    data = build_batch([NewRecord(NOW_MS, None, b"")] * 10_001)
    rules = BatchRules(COMPACTED, "t-0")
    error = at_its_end(rules.prepare(data, NOW_MS, read_header(data))).error
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert error.errors == ()


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("max_message_bytes", ErrorCode.MESSAGE_TOO_LARGE),
        ("segment_bytes", ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("in_steps", [False, True])
def test_the_size_limits_count_the_batch_that_is_stored(
    limit: str, code: ErrorCode, in_steps: bool
) -> None:
    """`compression.type` gives the batch another size (UnifiedLog.append)."""
    config = replace(DEFAULT, compression_type="uncompressed", **{limit: 10_000})
    driver = Driver(config)
    records = [NewRecord(NOW_MS, b"k", bytes(1_000))] * LARGE
    data = build_batch(records, compression=Compression.ZSTD)
    assert len(data) < 10_000
    with pytest.raises(AppendError) as refused:
        driver.log.append(
            data, 0, driver.now_ms, prepared=prepared(driver, data) if in_steps else None
        )
    assert refused.value.code is code
    assert stored(driver) == b""
