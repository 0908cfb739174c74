"""Raw requests to both brokers: the intended differences from Apache Kafka in transactions and
group offsets (docs/semantics.md, last section)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_groups import DeleteGroupsRequest
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.conformance.conftest import Target
from tests.conformance.differences import (
    COMMIT_AFTER_A_ZOMBIE_ASKED,
    GROUP_WITH_PENDING_OFFSETS,
    NEWER_EPOCH_IN_AN_OPEN_TRANSACTION,
    OFFSETS_UNDER_ANOTHER_NAME,
    OLDER_COMMITS_AGAIN,
    OLDER_ENDS,
    PATTERN,
    ZOMBIE_ASKS_ITS_EPOCH,
)
from tests.harness.batches import raw
from tests.harness.broker import Oncelog
from tests.harness.driving import create, values
from tests.harness.hanging import hanging
from tests.harness.transacting import (
    add_offsets,
    commit_offset,
    committed_offset,
    last_stable_offset,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = int(QUICK["transaction.state.log.num.partitions"])


def code(error_code: int) -> str:
    return ErrorCode(error_code).name


def opened(wire: Wire, producer: Identity, topic: str) -> None:
    """Write a record of the producer's open transaction to partition 0."""
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("named", ["the last", "an older", "a later"])
def test_z9_init_producer_id_with_a_wrong_epoch_does_not_abort_the_open_transaction(
    target: Target, wire: Wire, topic: str, version: int, named: str
) -> None:
    """Kafka first aborts the live producer's transaction. On oncelog a zombie changes nothing."""
    zombie = new_identity(wire, topic)
    live = new_identity(wire, topic, current=zombie)
    if named != "the last":
        live = new_identity(wire, topic, current=live)
    opened(wire, live, topic)
    asking = live.aged(3) if named == "a later" else zombie
    answered = code(init_producer_id(wire, topic, version=version, current=asking).error_code)
    expected = ZOMBIE_ASKS_ITS_EPOCH.expected(target.name)
    fenced = "PRODUCER_FENCED" if version >= 4 else "INVALID_PRODUCER_EPOCH"
    assert answered == expected.replace("PRODUCER_FENCED", fenced)

    def refused() -> bool:
        response = init_producer_id(wire, topic, version=version, current=asking)
        return code(response.error_code) == fenced

    wait_until(refused, "the zombie is fenced")
    ended = end_transaction(wire, live, commit=True)
    assert code(ended.error_code) == COMMIT_AFTER_A_ZOMBIE_ASKED.expected(target.name)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_init_producer_id_by_the_current_epoch_while_a_transaction_is_open(
    wire: Wire, topic: str, version: int
) -> None:
    """Both brokers abort the caller's own transaction and return the next epoch (KIP-360)."""
    producer = new_identity(wire, topic)
    opened(wire, producer, topic)
    first = init_producer_id(wire, topic, version=version, current=producer)
    assert code(first.error_code) == "CONCURRENT_TRANSACTIONS"
    assert new_identity(wire, topic, version=version, current=producer) == producer.aged(1)
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    assert values(wire, topic) == []


@pytest.mark.parametrize("version", [3, 5])
def test_t4_a_producer_may_bump_its_epoch_after_its_transaction_timed_out(
    wire: Wire, topic: str, version: int
) -> None:
    """No newer instance exists, so on both brokers the producer may bump the epoch after the
    abort."""
    producer = new_identity(wire, topic, timeout_ms=2_000)
    opened(wire, producer, topic)
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    for _ in range(2):
        assert new_identity(wire, topic, version=version, current=producer) == producer.aged(1)


def test_records_of_a_newer_epoch_are_refused_in_an_open_transaction(
    trusting: Target, name: str
) -> None:
    """In Kafka one COMMIT makes the records of both epochs visible."""
    with Wire(trusting.address) as wire:
        older = hanging(wire, name)
        newer = older.aged(1)
        written = produce(wire, name, batch(newer, 0, value=b"newer"), producer=newer, version=9)
        expected = NEWER_EPOCH_IN_AN_OPEN_TRANSACTION.expected(trusting.name)
        assert code(written.error_code) == expected
        place = WritableTxnMarkerTopic(name, [0])
        marker = WritableTxnMarker(newer.producer_id, newer.producer_epoch, True, [place], 0)
        assert wire.call(WriteTxnMarkersRequest([marker]), 1).markers
        seen = [b"v", b"newer"] if trusting.name == "kafka" else [b"v"]
        assert values(wire, name) == seen


def met(wire: Wire, topic: str, version: int) -> list[str]:
    """Let two producers have pending offsets of one partition in one group. The newer producer
    commits. Return the older producer's error codes for a further commit of the offset and for its
    EndTxn."""
    find_coordinator(wire, topic, key_type=0)
    older, newer = new_identity(wire, topic), new_identity(wire, f"{topic}-newer")
    if version < 5:
        assert add_offsets(wire, older, topic) == ErrorCode.NONE
        assert add_offsets(wire, newer, topic) == ErrorCode.NONE
    assert commit_offset(wire, older, topic, 5, version=version) == ErrorCode.NONE
    assert commit_offset(wire, newer, topic, 7, version=version) == ErrorCode.NONE
    answered = [code(commit_offset(wire, older, topic, 6, version=version))]
    end_version = 5 if version == 5 else 3
    ended = end_transaction(wire, newer, commit=True, version=end_version)
    assert ended.error_code == ErrorCode.NONE
    ended = end_transaction(wire, older, commit=True, version=end_version)
    return [*answered, code(ended.error_code)]


@pytest.mark.parametrize("version", [3, 5])
def test_the_older_of_two_transactions_with_offsets_of_one_partition_is_aborted(
    target: Target, wire: Wire, topic: str, version: int
) -> None:
    """oncelog aborts the older transaction, although the requests do not use oncelog's
    extension."""
    answered = met(wire, topic, version)
    assert answered == [
        difference.expected(target.name) for difference in (OLDER_COMMITS_AGAIN, OLDER_ENDS)
    ]
    left = 6 if target.name == "kafka" else 7
    wait_until(
        lambda: committed_offset(wire, topic, stable=True) == (left, 0),
        "both transactions are decided",
    )


def test_both_transactions_with_offsets_of_one_partition_commit_without_upgrade_fencing(
    tmp_path: Path,
) -> None:
    settings = {**QUICK, "group.transactions.enable": "false"}
    with Oncelog(tmp_path, settings) as broker, Wire(broker.address) as wire:
        create(wire, "t")
        answered = met(wire, "t", 5)
        assert answered == [
            difference.expected("kafka") for difference in (OLDER_COMMITS_AGAIN, OLDER_ENDS)
        ]
        wait_until(
            lambda: committed_offset(wire, "t", stable=True) == (6, 0),
            "both transactions are decided",
        )


@pytest.mark.parametrize("version", [0, 3, 5])
def test_z16_offsets_with_the_transactional_id_of_another_producer_are_refused(
    target: Target, wire: Wire, topic: str, version: int
) -> None:
    find_coordinator(wire, topic, key_type=0)
    producer, other = new_identity(wire, topic), new_identity(wire, f"{topic}-other")
    assert commit_offset(wire, producer, topic, 5) == ErrorCode.NONE
    forged = Identity(producer.producer_id, producer.producer_epoch, other.transactional_id)
    answered = code(commit_offset(wire, forged, topic, 9, version=version))
    assert answered == OFFSETS_UNDER_ANOTHER_NAME.expected(target.name)
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    left = 9 if target.name == "kafka" else 5
    wait_until(lambda: committed_offset(wire, topic, stable=True) == (left, 0), "the offset")


def test_o10_a_group_with_pending_offsets_is_not_deleted(
    target: Target, wire: Wire, topic: str
) -> None:
    """In Kafka the transaction commits, but its offset is lost."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    assert commit_offset(wire, producer, topic, 10) == ErrorCode.NONE
    deleted = wire.call(DeleteGroupsRequest([topic]), 2).results[0].error_code
    assert code(deleted) == GROUP_WITH_PENDING_OFFSETS.expected(target.name)
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    left = -1 if target.name == "kafka" else 10
    wait_until(
        lambda: committed_offset(wire, topic, stable=True) == (left, 0), "the offset is decided"
    )


@pytest.fixture
def no_producer(wire: Wire, topic: str) -> Iterator[Identity]:
    """An identity without a producer id. A transaction of its transactional id is open."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    opened(wire, producer, topic)
    yield Identity(-1, -1, topic)
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE


def test_z16_requests_without_a_producer_id_are_refused(
    wire: Wire, topic: str, no_producer: Identity
) -> None:
    answered = [add_offsets(wire, no_producer, topic)]
    answered += [
        commit_offset(wire, no_producer, topic, 1, version=version) for version in (0, 3, 5)
    ]
    answered += [
        end_transaction(wire, no_producer, commit=True, version=v).error_code for v in (3, 5)
    ]
    assert {code(error) for error in answered} == {"INVALID_PRODUCER_ID_MAPPING"}


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_an_empty_group_id_are_refused_before_the_producer_is_checked(
    wire: Wire, topic: str, version: int
) -> None:
    """Both brokers refuse the empty group id before they check the producer, which may be a
    zombie."""
    find_coordinator(wire, topic, key_type=0)
    zombie = new_identity(wire, topic)
    for producer in (new_identity(wire, topic), zombie):
        answered = code(commit_offset(wire, producer, topic, 1, version=version, group=""))
        assert answered == "INVALID_GROUP_ID"


@pytest.mark.parametrize("pattern", ["(?i)T-.*", r"\p{L}.*", r"\bt.*", "[[:alpha:]].*"])
def test_list_transactions_refuses_pattern_syntax_that_oncelog_does_not_support(
    target: Target, wire: Wire, topic: str, pattern: str
) -> None:
    new_identity(wire, topic)
    response = wire.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert code(response.error_code) == PATTERN.expected(target.name)


def test_the_state_partition_of_a_transactional_id_differs_from_kafkas(
    target: Target, wire: Wire
) -> None:
    """Kafka takes the absolute value of the hash. With 50 partitions, the partition is 38 in
    Kafka and 10 in oncelog."""
    new_identity(wire, "myProducer")
    found = [
        partition
        for partition in range(STATE_PARTITIONS)
        if any(b"myProducer" in bytes(data) for data in raw(wire, STATE_TOPIC, partition))
    ]
    assert found == [(38 if target.name == "kafka" else 10) % STATE_PARTITIONS]
