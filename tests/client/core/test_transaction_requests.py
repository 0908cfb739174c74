"""The contents of a transactional producer's requests, and for each request the versions that have
its fields."""

from __future__ import annotations

import pytest

from oncelog_client.config import producer_config
from oncelog_client.core.producer_id import NO_IDENTITY, ProducerIdAndEpoch
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.request_versions import ANY_VERSION
from oncelog_client.core.transaction_requests import (
    INIT_PRODUCER_ID_WITH_TWO_PHASE,
    TXN_OFFSET_COMMIT_WITH_MEMBER,
    TransactionRequests,
    assigned_topics,
)
from oncelog_client.values import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

IDENTITY = ProducerIdAndEpoch(7, 3)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def requests(*, two_phase: bool = False) -> TransactionRequests:
    config = producer_config(
        "localhost:9",
        {"transactional_id": "id", "transaction_two_phase_commit_enable": two_phase},
    )
    core = ProducerTransaction()
    core.identity = IDENTITY
    return TransactionRequests("id", config, core)


def test_partitions_are_grouped_by_topic() -> None:
    request = requests().add_partitions([A0, B0, A1])
    assert request.v3_and_below_transactional_id == "id"
    assert (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch) == IDENTITY
    rows = [(row.name, row.partitions) for row in request.v3_and_below_topics]
    assert rows == [("a", [0, 1]), ("b", [0])]


def test_assigned_partitions_are_sorted() -> None:
    rows = [(row.topic, row.partitions) for row in assigned_topics([B0, A1, A0])]
    assert rows == [("a", [0, 1]), ("b", [0])]


def test_offsets_keep_epoch_and_metadata() -> None:
    offsets = {A0: OffsetAndMetadata(5, "m", 2), A1: OffsetAndMetadata(6)}
    group = ConsumerGroupMetadata("g")
    request, _ = requests().txn_offset_commit(offsets, group, IDENTITY)
    (topic,) = request.topics
    assert [
        (row.partition_index, row.committed_offset, row.committed_metadata)
        for row in topic.partitions
    ] == [(0, 5, "m"), (1, 6, "")]
    assert [row.committed_leader_epoch for row in topic.partitions] == [2, -1]


@pytest.mark.parametrize(
    ("group", "versions"),
    [
        (ConsumerGroupMetadata("g"), ANY_VERSION),
        (ConsumerGroupMetadata("g", 0), TXN_OFFSET_COMMIT_WITH_MEMBER),
        (ConsumerGroupMetadata("g", -1, "member"), TXN_OFFSET_COMMIT_WITH_MEMBER),
    ],
)
def test_an_offset_commit_with_a_member_needs_a_version_with_the_member_fields(
    group: ConsumerGroupMetadata, versions: range
) -> None:
    """KIP-447: in an older version, the broker would commit the offsets of a zombie."""
    request, used = requests().txn_offset_commit({A0: OffsetAndMetadata(1)}, group, IDENTITY)
    assert used == versions
    assert (request.generation_id_or_member_epoch, request.member_id) == (
        group.generation_id,
        group.member_id,
    )


@pytest.mark.parametrize(
    ("two_phase", "keep_prepared", "versions"),
    [
        (False, False, ANY_VERSION),
        (True, False, INIT_PRODUCER_ID_WITH_TWO_PHASE),
        (False, True, INIT_PRODUCER_ID_WITH_TWO_PHASE),
    ],
)
def test_two_phase_commit_needs_a_version_with_its_fields(
    two_phase: bool, keep_prepared: bool, versions: range
) -> None:
    made = requests(two_phase=two_phase)
    request, used = made.init_producer_id(NO_IDENTITY, keep_prepared=keep_prepared)
    assert used == versions
    assert (request.enable_2pc, request.keep_prepared_txn) == (two_phase, keep_prepared)
    assert (request.producer_id, request.producer_epoch) == NO_IDENTITY


def test_the_member_fields_are_in_the_first_allowed_version_and_not_in_the_one_before() -> None:
    group = ConsumerGroupMetadata("g", 5, "member")
    request, versions = requests().txn_offset_commit({A0: OffsetAndMetadata(1)}, group, IDENTITY)
    first = versions[0]
    read = decode(TxnOffsetCommitRequest, first, encode(request, first))
    assert (read.generation_id_or_member_epoch, read.member_id) == (5, "member")
    assert not _carries(request, first - 1)


def test_two_phase_commit_is_in_the_first_allowed_version_and_not_in_the_one_before() -> None:
    request, versions = requests(two_phase=True).init_producer_id(NO_IDENTITY, keep_prepared=True)
    first = versions[0]
    read = decode(InitProducerIdRequest, first, encode(request, first))
    assert read.enable_2pc
    assert read.keep_prepared_txn
    assert not _carries(request, first - 1)


def _carries(request: object, version: int) -> bool:
    """Return True if the version has all fields of the request."""
    try:
        return decode(type(request), version, encode(request, version)) == request
    except ProtocolError:
        return False


@pytest.mark.parametrize("committed", [True, False])
def test_endtxn_has_the_current_producer_id_and_epoch(committed: bool) -> None:
    request = requests().end_txn(committed=committed)
    assert (request.producer_id, request.producer_epoch, request.committed) == (
        *IDENTITY,
        committed,
    )
