"""Limits of oncelog that Apache Kafka does not have. They exist because one process serves all
clients (docs/semantics.md, last section)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.checksum import crc32c
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_protocol.records.batch import build_batch
from tests.conformance.conftest import Target
from tests.conformance.differences import (
    CLOSED,
    FORGED_PRODUCER_ID,
    IDS_OF_AN_ADDRESS,
    INTERNAL_TOPIC_BY_NAME,
    PARTITIONS_OF_INTERNAL_TOPICS,
    PRODUCERS_OF_A_PARTITION,
    RECORDS_INSIDE,
    TOO_MANY_ELEMENTS,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import create
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    Identity,
    batch,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
    records,
)

# Positions in a batch: the CRC, the bytes that the CRC covers, and the first record.
CRC, COVERED, FIRST_RECORD = 17, 21, 61


def code(error_code: int) -> str:
    return ErrorCode(error_code).name


def add(producer: Identity, topic: str, count: int) -> AddPartitionsToTxnRequest:
    """Return a request for `count` partitions of one topic. Only the first one exists."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id or "",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(range(count)))],
    )


def commit(producer: Identity, topic: str, count: int) -> TxnOffsetCommitRequest:
    """Return a transactional commit of `count` offsets. The topic's name is also the group's id."""
    rows = [TxnOffsetCommitRequestPartition(number, 1) for number in range(count)]
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id or "",
        group_id=topic,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


@pytest.mark.parametrize(
    ("build", "version", "count"), [(add, 3, 10_000), (commit, 5, 20_002)], ids=["add", "commit"]
)
def test_a_transaction_request_with_too_many_partitions_closes_the_connection(
    target: Target, wire: Wire, topic: str, build: type, version: int, count: int
) -> None:
    """`count` is the maximum number of array elements of a request: one topic and `count - 1`
    partitions. A request with this number gets a response."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    assert wire.call(build(producer, topic, count - 1), version)
    try:
        wire.call(build(producer, topic, count + 1), version)
        refused = "NONE"
    except (Closed, ConnectionError):
        refused = CLOSED
    assert refused == TOO_MANY_ELEMENTS.expected(target.name)


@pytest.fixture
def few(target: Target, topic: str, tmp_path: Path) -> Iterator[tuple[Wire, str]]:
    """A broker with a topic, and with at most two producer ids per address and one per partition.
    Kafka has no such limits."""
    if target.name == "kafka":
        with Wire(target.address) as wire:
            yield wire, topic
        return
    limits = {
        "oncelog.max.producer.ids.per.address": "2",
        "oncelog.max.producer.ids.per.partition": "1",
    }
    with Oncelog(tmp_path, QUICK | limits) as broker, Wire(broker.address) as wire:
        create(wire, topic)
        yield wire, topic


def test_h60_a_producer_id_beyond_the_limit_of_an_address_is_refused(
    target: Target, few: tuple[Wire, str]
) -> None:
    wire, topic = few
    new_identity(wire)
    known = new_identity(wire, topic)
    find_coordinator(wire, f"{topic}-more")
    for name in (None, f"{topic}-more"):
        refused: list[int] = []

        def answered(name: str | None = name, refused: list[int] = refused) -> bool:
            refused.append(init_producer_id(wire, name).error_code)
            return refused[-1] not in BUSY

        wait_until(answered, "a response of the coordinator")
        assert code(refused[-1]) == IDS_OF_AN_ADDRESS.expected(target.name)
    assert new_identity(wire, topic) == known.aged(1)


def test_h60_a_producer_beyond_the_limit_of_a_partition_is_refused(
    target: Target, few: tuple[Wire, str]
) -> None:
    wire, topic = few
    first, second = new_identity(wire), new_identity(wire, topic)
    assert produce(wire, topic, batch(first, 0)).error_code == ErrorCode.NONE
    refused = produce(wire, topic, batch(second, 0), producer=second).error_code
    assert code(refused) == PRODUCERS_OF_A_PARTITION.expected(target.name)
    assert produce(wire, topic, batch(first, 1)).error_code == ErrorCode.NONE


def test_invalid_records_in_a_batch_with_a_valid_crc_are_not_decoded_by_default(
    target: Target, wire: Wire, topic: str
) -> None:
    data = bytearray(build_batch(records()))
    data[FIRST_RECORD] = 0x7E  # the record's length
    struct.pack_into(">I", data, CRC, crc32c(bytes(data[COVERED:])))
    refused = produce(wire, topic, data).error_code
    assert code(refused) == RECORDS_INSIDE.expected(target.name)


@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state"])
def test_h51_kafkas_admin_client_id_gives_no_access_to_internal_topics(
    target: Target, topic: str, internal: str
) -> None:
    """The batch has an invalid CRC, so a broker that gives the client access still refuses the
    batch, and the internal topic is not damaged."""
    data = bytearray(build_batch(records()))
    data[-1] ^= 1
    with Wire(target.address, "__admin_client") as wire:
        find_coordinator(wire, topic, key_type=0)
        find_coordinator(wire, topic)
        refused = produce(wire, internal, data).error_code
    assert code(refused) == INTERNAL_TOPIC_BY_NAME.expected(target.name)


@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state"])
def test_partitions_cannot_be_added_to_an_internal_topic(
    target: Target, wire: Wire, topic: str, internal: str
) -> None:
    """The request has `validate_only`, because otherwise Kafka would add the partitions."""
    find_coordinator(wire, topic, key_type=0)
    find_coordinator(wire, topic)
    more = CreatePartitionsTopic(internal, 60, None)
    (refused,) = wire.call(CreatePartitionsRequest([more], 10_000, True), 3).results
    assert code(refused.error_code) == PARTITIONS_OF_INTERNAL_TOPICS.expected(target.name)


def test_a_producer_id_that_was_never_assigned_is_refused(
    target: Target, wire: Wire, topic: str
) -> None:
    """The id is far above all ids that the brokers assign in other tests."""
    data = batch(Identity(1 << 60, 0), 0)
    refused = produce(wire, topic, data).error_code
    assert code(refused) == FORGED_PRODUCER_ID.expected(target.name)
