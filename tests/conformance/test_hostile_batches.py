"""Batches that a producer must not write: control batches, batches of impossible producers, and
batches for internal topics (scenarios H42-H52)."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from tests.conformance.conftest import Target
from tests.harness.batches import raw
from tests.harness.broker import Oncelog
from tests.harness.driving import end_offset, list_offset
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
    records,
    topic_id,
)

INTERNAL = ("__consumer_offsets", "__transaction_state")


def code(error_code: int) -> str:
    return ErrorCode(error_code).name


def untouched(wire: Wire, topic: str) -> None:
    """Check that the partition is empty and accepts a batch."""
    assert end_offset(wire, topic) == 0
    request = DescribeProducersRequest([TopicRequest(topic, [0])])
    assert wire.call(request, 0).topics[0].partitions[0].active_producers == []
    assert produce(wire, topic, build_batch(records())).base_offset == 0


def marker(producer: Identity, *, committed: bool) -> bytearray:
    """Return a marker. Only a coordinator may write a marker."""
    return build_marker_batch(
        EndTransactionMarker(committed, 0),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timestamp_ms=1,
    )


@pytest.mark.parametrize("version", [3, 9, 12])
def test_h42_a_client_cannot_write_a_control_batch(wire: Wire, topic: str, version: int) -> None:
    control = build_batch(records(), is_control=True)
    refused = produce(wire, topic, control, version=version)
    assert code(refused.error_code) == "INVALID_RECORD"
    untouched(wire, topic)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [9, 12])
def test_h42_a_producer_cannot_write_a_marker_of_its_own_transaction(
    wire: Wire, topic: str, version: int, committed: bool
) -> None:
    """The marker is refused, and the open transaction of the producer is unchanged."""
    producer = new_identity(wire, topic)
    assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    assert (
        produce(wire, topic, batch(producer, 0), producer=producer, version=9).error_code
        == ErrorCode.NONE
    )
    forged = marker(producer, committed=committed)
    refused = produce(wire, topic, forged, producer=producer, version=version)
    assert code(refused.error_code) == "INVALID_RECORD"
    assert last_stable_offset(wire, topic) == (0, 1)
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE


def test_h42_a_client_cannot_write_a_marker_of_another_transaction(wire: Wire, topic: str) -> None:
    producer, thief = new_identity(wire, topic), new_identity(wire, f"{topic}-thief")
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    forged = marker(producer, committed=True)
    named = Identity(producer.producer_id, producer.producer_epoch, thief.transactional_id)
    for name in (named, None):
        refused = produce(wire, topic, forged, producer=name)
        assert refused.error_code != ErrorCode.NONE
    assert last_stable_offset(wire, topic) == (0, 1)
    assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE


IMPOSSIBLE = {
    "a producer without a sequence": build_batch(
        records(), producer_id=5_000_000, producer_epoch=0, base_sequence=-1
    ),
    "a transaction without a producer": build_batch(records(), is_transactional=True),
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_h48_a_batch_with_impossible_producer_fields_is_refused(
    wire: Wire, topic: str, kind: str
) -> None:
    refused = produce(wire, topic, bytearray(IMPOSSIBLE[kind]))
    assert code(refused.error_code) in {"INVALID_RECORD", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
    untouched(wire, topic)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_h48_a_transactional_batch_without_a_transactional_id_is_refused(
    wire: Wire, topic: str, version: int
) -> None:
    producer = new_identity(wire, topic)
    refused = produce(wire, topic, batch(producer, 0), producer=None, version=version)
    assert code(refused.error_code) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    untouched(wire, topic)


@pytest.mark.parametrize("internal", INTERNAL)
def test_h51_clients_cannot_write_to_internal_topics(
    target: Target, topic: str, internal: str
) -> None:
    closed_to(target.address, "wire", topic, internal)


@pytest.mark.parametrize("internal", INTERNAL)
def test_h51_no_client_id_allows_writes_to_internal_topics(tmp_path: Path, internal: str) -> None:
    """Kafka accepts writes from the client id `__admin_client`, although any client may use that
    id."""
    with Oncelog(tmp_path) as broker:
        closed_to(broker.address, "__admin_client", "t", internal)


def closed_to(address: str, client_id: str, topic: str, internal: str) -> None:
    with Wire(address, client_id) as wire:
        find_coordinator(wire, topic, key_type=0)
        find_coordinator(wire, topic)
        # FindCoordinator responds before the broker leads all partitions of the new topic.
        wait_until(lambda: all(led(wire, internal)), f"leaders of all partitions of {internal}")
        mark = b"written from outside"
        partitions = range(len(led(wire, internal)))
        before = [end_offset(wire, internal, partition) for partition in partitions]
        for acks in (-1, 1):
            refused = produce(wire, internal, build_batch(records(1, mark)), acks=acks)
            assert code(refused.error_code) == "INVALID_TOPIC_EXCEPTION"
        place = TopicProduceData(
            topic_id=topic_id(wire, internal),
            partition_data=[PartitionProduceData(0, build_batch(records(1, mark)))],
        )
        response = wire.call(ProduceRequest(None, -1, 1_000, [place]), 13)
        answered = response.responses[0].partition_responses[0].error_code
        assert code(answered) == "INVALID_TOPIC_EXCEPTION"
        # The end offsets may differ, because the coordinators write for other tests at any time.
        for partition, offset in enumerate(before):
            assert not any(mark in found for found in raw(wire, internal, partition, offset))


def led(wire: Wire, topic: str) -> list[bool]:
    """Return for each partition of an internal topic True if the broker leads it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = wire.call(request, 12).topics
    assert found.error_code == ErrorCode.NONE
    assert found.partitions
    return [
        list_offset(wire, topic, -1, partition)[0] == ErrorCode.NONE
        for partition in range(len(found.partitions))
    ]


@pytest.mark.parametrize("internal", INTERNAL)
def test_h51_a_client_cannot_add_an_internal_topic_to_its_transaction(
    wire: Wire, topic: str, internal: str
) -> None:
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    answered = [
        code(add_partition)
        for add_partition in add_partitions(wire, producer, (internal, 0), (topic, 0))
    ]
    assert answered == ["TOPIC_AUTHORIZATION_FAILED", "OPERATION_NOT_ATTEMPTED"]
    ended = end_transaction(wire, producer, commit=True)
    assert code(ended.error_code) == "INVALID_TXN_STATE"


@pytest.mark.parametrize("acks", [2, -2, 32_767, -32_768])
def test_h52_a_produce_with_undefined_acks_is_refused(wire: Wire, topic: str, acks: int) -> None:
    refused = produce(wire, topic, build_batch(records()), acks=acks)
    assert code(refused.error_code) == "INVALID_REQUIRED_ACKS"
    untouched(wire, topic)


@pytest.mark.parametrize("timeout_ms", [-1, -(2**31), 2**31 - 1])
def test_h52_a_produce_with_a_senseless_timeout_is_accepted(
    wire: Wire, topic: str, timeout_ms: int
) -> None:
    """A batch that is written without a wait is accepted with any timeout."""
    rows = [PartitionProduceData(0, build_batch(records()))]
    topics = [TopicProduceData(name=topic, partition_data=rows)]
    response = wire.call(ProduceRequest(None, -1, timeout_ms, topics), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert end_offset(wire, topic) == 1
