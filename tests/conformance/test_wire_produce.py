"""Raw Produce: sequence numbers, epochs, and batches that no client sends (KIP-98, KIP-360)."""

from __future__ import annotations

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from tests.conformance.conftest import Target
from tests.conformance.differences import BESIDE_AN_UNKNOWN_FORMAT
from tests.harness.writing import batch, new_identity, produce, records, topic_id


def test_r1_r2_r3_a_repeated_batch_gets_its_original_offset(wire: Wire, topic: str) -> None:
    """A repetition of any of the last five batches gets the original offset, and nothing is
    appended."""
    producer = new_identity(wire)
    offsets = [produce(wire, topic, batch(producer, at * 2, 2)).base_offset for at in range(7)]
    assert offsets == [0, 2, 4, 6, 8, 10, 12]
    for at in range(2, 7):
        again = produce(wire, topic, batch(producer, at * 2, 2))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, at * 2)
    assert produce(wire, topic, batch(producer, 14)).base_offset == 14


def test_r4_a_batch_out_of_order_is_refused(wire: Wire, topic: str) -> None:
    """A gap, or a batch older than the last five, gets OUT_OF_ORDER_SEQUENCE_NUMBER."""
    producer = new_identity(wire)
    for at in range(7):
        produce(wire, topic, batch(producer, at))
    for sequence in (8, 0):
        refused = produce(wire, topic, batch(producer, sequence))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, sequence
        assert refused.log_start_offset == 0
    assert produce(wire, topic, batch(producer, 7)).base_offset == 7


def test_r4_the_sequence_starts_again_with_a_new_epoch(wire: Wire, topic: str) -> None:
    """The first sequence number of a higher epoch is 0, and a batch of the old epoch gets
    INVALID_PRODUCER_EPOCH."""
    producer = new_identity(wire)
    produce(wire, topic, batch(producer, 0))
    newer = producer.aged(1)
    wrong = produce(wire, topic, batch(newer, 5))
    assert wrong.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(wire, topic, batch(newer, 0)).error_code == ErrorCode.NONE
    fenced = produce(wire, topic, batch(producer, 1))
    assert fenced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fenced.log_start_offset == 0


def test_e8_the_sequence_wraps(wire: Wire, topic: str) -> None:
    """The sequence number after 2^31 - 1 is 0."""
    producer = new_identity(wire)
    largest = (1 << 31) - 1
    for sequence, count in ((largest - 1, 2), (0, 1), (1, 1)):
        response = produce(wire, topic, batch(producer, sequence, count))
        assert response.error_code == ErrorCode.NONE, sequence
    again = produce(wire, topic, batch(producer, largest - 1, 2))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)


def flipped(data: bytearray) -> bytearray:
    """Return the batch with one bit of its last byte changed."""
    data[-1] ^= 1
    return data


def of_magic(data: bytearray, magic: int) -> bytearray:
    """Return the batch with another magic."""
    data[16] = magic
    return data


BAD_BATCHES = {
    "a wrong CRC": (flipped(build_batch(records())), ErrorCode.CORRUPT_MESSAGE),
    "a cut batch": (build_batch(records())[:-3], ErrorCode.INVALID_RECORD),
    "two batches": (build_batch(records()) * 2, ErrorCode.INVALID_RECORD),
    "a marker": (
        build_marker_batch(
            EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=1
        ),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "a control batch": (build_batch(records(), is_control=True), ErrorCode.INVALID_RECORD),
    "a base offset": (build_batch(records(), base_offset=5), ErrorCode.INVALID_RECORD),
    "a future format": (of_magic(build_batch(records()), 3), ErrorCode.CORRUPT_MESSAGE),
    "an old format": (of_magic(build_batch(records()), 1), ErrorCode.INVALID_RECORD),
    "no batch": (bytearray(), ErrorCode.INVALID_RECORD),
    "too much": (
        build_batch(records(1, b"x" * 1_100_000)),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
}


@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_h40_h41_h42_h50_a_bad_batch_is_refused_and_nothing_else_happens(
    wire: Wire, topic: str, kind: str
) -> None:
    """The bad batch gets an error code. The connection, the partition and the next batch are
    unaffected."""
    data, code = BAD_BATCHES[kind]
    refused = produce(wire, topic, bytearray(data))
    assert ErrorCode(refused.error_code).name == code.name
    assert refused.base_offset == -1
    assert produce(wire, topic, build_batch(records())).base_offset == 0


def test_a_batch_of_an_unknown_format_stops_only_kafkas_other_partitions(
    target: Target, wire: Wire, topic: str
) -> None:
    batches = {0: of_magic(build_batch(records()), 3), 1: build_batch(records())}
    place = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(*item) for item in batches.items()]
    )
    response = wire.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[place]), 12)
    rows = response.responses[0].partition_responses
    codes = {row.index: ErrorCode(row.error_code).name for row in rows}
    assert codes == {
        0: ErrorCode.CORRUPT_MESSAGE.name,
        1: BESIDE_AN_UNKNOWN_FORMAT.expected(target.name),
    }


@pytest.mark.parametrize(
    ("place", "partition", "code"),
    [
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("topic", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_batch_for_a_missing_topic_or_partition_is_refused(
    wire: Wire, topic: str, place: str, partition: int, code: ErrorCode
) -> None:
    """Produce does not create the topic or partition."""
    name = topic if place == "topic" else f"{topic}-{place}"
    response = produce(wire, name, build_batch(records()), partition=partition)
    assert ErrorCode(response.error_code).name == code.name


def test_an_unknown_topic_id_is_refused(wire: Wire, topic: str) -> None:
    """Version 13 names topics by id (KIP-516)."""
    for known in (True, False):
        place = TopicProduceData(
            topic_id=topic_id(wire, topic) if known else bytes(range(16)),
            partition_data=[PartitionProduceData(0, build_batch(records()))],
        )
        response = wire.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[place]), 13)
        code = response.responses[0].partition_responses[0].error_code
        assert code == (ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_ID)


def test_h52_required_acks_are_none_one_or_all(wire: Wire, topic: str) -> None:
    """acks=2 gets INVALID_REQUIRED_ACKS. acks=0 gets no response, and the next response is in
    order."""
    refused = produce(wire, topic, build_batch(records()), acks=2)
    assert refused.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    place = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(0, build_batch(records(3)))]
    )
    wire.send(ProduceRequest(acks=0, topic_data=[place]), 12, answered=False)
    assert produce(wire, topic, build_batch(records()), acks=1).base_offset == 3


def test_every_version_of_produce_works(wire: Wire, topic: str) -> None:
    """Version 3 is the first with record format 2. Responses come in the order of the requests."""
    for offset, version in enumerate(range(3, 13)):
        response = produce(wire, topic, build_batch(records()), version=version)
        assert (response.error_code, response.base_offset) == (ErrorCode.NONE, offset)
    place = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(0, build_batch(records()))]
    )
    for _ in range(20):
        wire.send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[place]), 9)
    responses = [wire.answer() for _ in range(20)]
    offsets = [response.responses[0].partition_responses[0].base_offset for response in responses]
    assert offsets == list(range(10, 30))
