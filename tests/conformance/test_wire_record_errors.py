"""Produce v8+ names the records that make a batch invalid (KIP-467), with Kafka's messages."""

from __future__ import annotations

import re
import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import PartitionProduceResponse
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import NewRecord
from tests.conformance.conftest import Target, create_topic
from tests.harness.waiting import wait_until
from tests.harness.writing import produce

HOUR_MS = 3_600_000
RECORD_ERRORS_SINCE = 8


def errors(response: PartitionProduceResponse) -> list[tuple[int, str | None]]:
    """Return the named records of a refused batch, with their messages."""
    return [
        (record_error.batch_index, record_error.batch_index_error_message)
        for record_error in response.record_errors
    ]


def keyed(count: int, *without: int, at_ms: int | None = None) -> list[NewRecord]:
    """Return `count` records. The records at `without` have no key."""
    now_ms = int(time.time() * 1000) if at_ms is None else at_ms
    return [NewRecord(now_ms, None if i in without else b"k", b"v") for i in range(count)]


@pytest.mark.parametrize("version", [7, 8, 12])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_records_without_a_key_are_named(
    wire: Wire, admin: AdminClient, name: str, version: int, codec: Compression
) -> None:
    create_topic(admin, name, config={"cleanup.policy": "compact"})
    data = build_batch(keyed(6, 1, 2, 4, 5), compression=codec)
    response = produce(wire, name, data, version=version)
    assert ErrorCode(response.error_code).name == "INVALID_RECORD"
    assert (response.base_offset, response.log_start_offset) == (-1, 0)
    if version < RECORD_ERRORS_SINCE:
        assert (response.record_errors, response.error_message) == ([], None)
        return
    why = f"Compacted topic cannot accept message without key in topic partition {name}-0"
    assert errors(response) == [(index, why) for index in (1, 2, 4, 5)]
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{why}')" for index in (1, 2, 4))
    assert response.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing "
        f"the first three errors at most: [{shown}]"
    )


OUTSIDE = re.compile(
    r"Timestamp (\d+) of message with offset (\d+) is out of range\. "
    r"The timestamp should be within \[(-?\d+), (\d+)\]"
)


@pytest.mark.parametrize("ahead_ms", [-3 * HOUR_MS, 3 * HOUR_MS])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_timestamps_outside_the_limits_are_named(
    wire: Wire, admin: AdminClient, name: str, ahead_ms: int, codec: Compression
) -> None:
    limits = {
        "message.timestamp.before.max.ms": str(2 * HOUR_MS),
        "message.timestamp.after.max.ms": str(HOUR_MS),
    }
    create_topic(admin, name, config=limits)
    now_ms = int(time.time() * 1000)
    records = [
        NewRecord(now_ms + (ahead_ms if index in (0, 3) else 0), b"k", b"v") for index in range(4)
    ]
    response = produce(wire, name, build_batch(records, compression=codec))
    assert ErrorCode(response.error_code).name == "INVALID_TIMESTAMP"
    assert response.error_message == (
        "One or more records have been rejected due to invalid timestamp"
    )
    found = errors(response)
    assert [index for index, _ in found] == [0, 3]
    for index, why in found:
        said = OUTSIDE.fullmatch(why or "")
        assert said is not None, why
        stamp, offset, first, last = map(int, said.groups())
        assert (stamp, offset, last - first) == (now_ms + ahead_ms, index, 3 * HOUR_MS)


def test_a_batch_without_keys_is_refused_for_its_invalid_timestamps(
    wire: Wire, admin: AdminClient, name: str
) -> None:
    """A batch with missing keys and invalid timestamps gets INVALID_TIMESTAMP. A record with both
    defects is named for its missing key."""
    config = {"cleanup.policy": "compact", "message.timestamp.after.max.ms": str(HOUR_MS)}
    create_topic(admin, name, config=config)
    ahead_ms = int(time.time() * 1000) + 2 * HOUR_MS
    records = [*keyed(2, 0), *keyed(2, 0, at_ms=ahead_ms)]
    response = produce(wire, name, build_batch(records))
    assert ErrorCode(response.error_code).name == "INVALID_TIMESTAMP"
    whys = [(index, (why or "").split(" ")[0]) for index, why in errors(response)]
    assert whys == [(0, "Compacted"), (2, "Compacted"), (3, "Timestamp")]


def test_the_response_to_a_corrupt_batch_names_no_record(
    wire: Wire, admin: AdminClient, name: str
) -> None:
    create_topic(admin, name, config={"cleanup.policy": "compact"})
    data = build_batch(keyed(2, 0))
    data[-1] ^= 1
    response = produce(wire, name, data)
    assert ErrorCode(response.error_code).name == "CORRUPT_MESSAGE"
    assert response.record_errors == []


def test_librdkafka_0011_ten_records_are_invalid_and_ninety_fail_because_of_them(
    target: Target, admin: AdminClient, name: str
) -> None:
    """The case of test_message_single_partition_record_fail in librdkafka's test 0011."""
    create_topic(admin, name, config={"cleanup.policy": "compact"})
    # The test needs one full batch, so it waits until librdkafka sends it. `flush` would make
    # librdkafka send what it has, which may be a part of the batch.
    producer = Producer(
        {"bootstrap.servers": target.address, "linger.ms": 60_000, "batch.num.messages": 100}
    )
    codes: dict[int, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        codes[int(message.value() or b"-1")] = 0 if error is None else error.code()

    def all_reported() -> bool:
        producer.poll(0)
        return len(codes) == 100

    try:
        for index in range(100):
            key = None if index % 10 == 0 else b"k"
            producer.produce(name, str(index).encode(), key, 0, on_delivery=delivered)
        wait_until(all_reported, "the reports of 100 records")
    except KafkaException as error:  # pragma: no cover - the message of a failed test
        raise AssertionError(error.args) from error
    named = {index for index, code in codes.items() if code == KafkaError.INVALID_RECORD}
    different = {i for i, code in codes.items() if code == KafkaError._INVALID_DIFFERENT_RECORD}
    assert named == set(range(0, 100, 10))
    assert len(different) == 90
