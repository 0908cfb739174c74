"""Raw requests of the transactional APIs, by version: fencing, retries and timeouts."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.conformance.clients import Client
from tests.conformance.conftest import Target
from tests.conformance.differences import COMMIT_AFTER_ABORT, Difference
from tests.conformance.polling import poll_until
from tests.harness.transacting import (
    add_partitions,
    commit_offset,
    committed_offset,
    last_stable_offset,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)


def test_r6_each_end_txn_returns_the_next_epoch_and_a_retry_the_same_epoch(
    target: Target, wire: Wire, topic: str
) -> None:
    """Transaction version 2: each end bumps the epoch, and a retry gets the same epoch
    (KIP-890)."""
    producer = new_identity(wire, topic)
    for commit in (True, False, True):
        assert (
            produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
        response = end_transaction(wire, producer, commit=commit)
        assert response.error_code == ErrorCode.NONE
        bumped = (response.producer_id, response.producer_epoch)
        assert bumped == (producer.producer_id, producer.producer_epoch + 1)
        again = end_transaction(wire, producer, commit=commit)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, *bumped)
        contrary = end_transaction(wire, producer, commit=not commit)
        refusal = "INVALID_TXN_STATE" if commit else COMMIT_AFTER_ABORT.expected(target.name)
        assert ErrorCode(contrary.error_code).name == refusal
        producer = producer.aged(1)
    wait_until(lambda: last_stable_offset(wire, topic) == (6, 6), "LSO = HW")


def test_r5_r13_a_v1_client_keeps_its_epoch(wire: Wire, topic: str) -> None:
    """Up to EndTxn v4 the epoch stays, and the client adds partitions first (KIP-98)."""
    producer = new_identity(wire, topic, version=2)
    for turn, commit in enumerate((True, False)):
        assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
        assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
        written = produce(wire, topic, batch(producer, turn), producer=producer, version=9)
        assert written.error_code == ErrorCode.NONE
        for _ in range(2):
            assert (
                end_transaction(wire, producer, commit=commit, version=3).error_code
                == ErrorCode.NONE
            )
        contrary = end_transaction(wire, producer, commit=not commit, version=3)
        assert contrary.error_code == ErrorCode.INVALID_TXN_STATE
    wait_until(lambda: last_stable_offset(wire, topic) == (4, 4), "LSO = HW")


def test_an_end_without_a_transaction(wire: Wire, topic: str) -> None:
    """A transactional id without a transaction gets INVALID_TXN_STATE. An unknown transactional id,
    or one with another producer id, gets INVALID_PRODUCER_ID_MAPPING."""
    producer = new_identity(wire, topic)
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    other = Identity(producer.producer_id + 7, 0, topic)
    unknown = Identity(producer.producer_id, 0, f"{topic}-unknown")
    find_coordinator(wire, unknown.transactional_id)
    for identity in (other, unknown):
        response = end_transaction(wire, identity, commit=True)
        assert response.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_r14_init_producer_id_with_the_current_epoch_returns_the_next_epoch(
    wire: Wire, topic: str
) -> None:
    """KIP-360: InitProducerId with the current id and epoch returns the next epoch. A retry gets
    the same epoch."""
    producer = new_identity(wire, topic)
    bumped = new_identity(wire, topic, current=producer)
    assert bumped == producer.aged(1)
    assert new_identity(wire, topic, current=producer) == bumped


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_transaction_timeout_out_of_bounds(wire: Wire, topic: str, timeout_ms: int) -> None:
    """A timeout that is not positive, or is above `transaction.max.timeout.ms`, is refused."""
    find_coordinator(wire, topic)
    codes: list[int] = []

    def answered() -> bool:
        codes.append(init_producer_id(wire, topic, timeout_ms=timeout_ms).error_code)
        return codes[-1] not in BUSY

    wait_until(answered, "a response to InitProducerId")
    assert codes[-1] == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_transactional_id(wire: Wire) -> None:
    """Null means an idempotent producer; the empty string is not an id."""
    assert init_producer_id(wire, "").error_code == ErrorCode.INVALID_REQUEST


def test_r18_add_partitions_to_txn_with_one_unknown_partition_adds_none(
    wire: Wire, topic: str
) -> None:
    """The other partitions get OPERATION_NOT_ATTEMPTED."""
    producer = new_identity(wire, topic, version=2)
    codes = add_partitions(wire, producer, (topic, 0), (f"{topic}-no", 0))
    assert codes == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    ended = end_transaction(wire, producer, commit=True, version=3)
    assert ended.error_code == ErrorCode.INVALID_TXN_STATE


def test_z3_a_produce_outside_any_transaction_is_refused(wire: Wire, topic: str) -> None:
    """KIP-890: a Produce by a client that has not added the partition gets INVALID_TXN_STATE in v9,
    and TRANSACTION_ABORTABLE in v11."""
    producer = new_identity(wire, topic, version=2)
    codes = []
    for version in (9, 11):
        response = produce(wire, topic, batch(producer, 0), producer=producer, version=version)
        codes.append(ErrorCode(response.error_code).name)
    assert codes == ["INVALID_TXN_STATE", "TRANSACTION_ABORTABLE"]
    assert last_stable_offset(wire, topic) == (0, 0)


def test_o1_o2_transactional_offsets_are_pending_until_the_transaction_ends(
    wire: Wire, topic: str
) -> None:
    """KIP-447: before the end, a reader with require_stable gets UNSTABLE_OFFSET_COMMIT."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    assert commit_offset(wire, producer, topic, 41) == ErrorCode.NONE
    assert committed_offset(wire, topic, stable=False) == (-1, ErrorCode.NONE)
    assert committed_offset(wire, topic, stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE
    producer = producer.aged(1)
    wait_until(lambda: committed_offset(wire, topic, stable=True) == (-1, 0), "the abort is there")
    assert commit_offset(wire, producer, topic, 42) == ErrorCode.NONE
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    wait_until(lambda: committed_offset(wire, topic, stable=True) == (42, 0), "the offset is there")


@pytest.mark.parametrize(
    ("live", "member", "code"),
    [
        (True, {"generation_id_or_member_epoch": 3, "member_id": "x"}, "UNKNOWN_MEMBER_ID"),
        (True, {"member_id": "x"}, "UNKNOWN_MEMBER_ID"),
        (True, {"generation_id_or_member_epoch": 3}, "UNKNOWN_MEMBER_ID"),
        (True, {"group_instance_id": "y"}, "UNKNOWN_MEMBER_ID"),
        (True, {}, "NONE"),
        (False, {"generation_id_or_member_epoch": 3, "member_id": "x"}, "ILLEGAL_GENERATION"),
        (False, {"generation_id_or_member_epoch": 3}, "ILLEGAL_GENERATION"),
        (False, {"member_id": "x"}, "NONE"),
    ],
)
def test_o9_transactional_offsets_of_an_unknown_member_or_generation_are_refused(
    target: Target,
    python_clients: dict[str, Client],
    wire: Wire,
    topic: str,
    live: bool,
    member: dict[str, Any],
    code: str,
) -> None:
    """KIP-447: a group with members (`live`) refuses an unknown member, and a generation without a
    member. A group without members refuses any generation, and does not check the member id."""
    if live:
        member_of_group = python_clients["confluent-kafka"].consumer(
            target.address, topic, group=topic
        )
        poll_until([member_of_group], member_of_group.assignment, "the group has a member")
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    assert ErrorCode(commit_offset(wire, producer, topic, 1, **member)).name == code


@pytest.mark.parametrize(
    ("version", "commit", "code"),
    [(5, True, COMMIT_AFTER_ABORT), (5, False, "NONE"), (3, True, "PRODUCER_FENCED")],
)
def test_t1_t4_a_transaction_is_aborted_at_its_timeout(
    target: Target, wire: Wire, topic: str, version: int, commit: bool, code: str | Difference
) -> None:
    """At the timeout the broker aborts the transaction and fences the producer, and readers
    continue."""
    producer = new_identity(wire, topic, timeout_ms=1_500)
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    assert last_stable_offset(wire, topic) == (0, 1)
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    ended = end_transaction(wire, producer, commit=commit, version=version)
    expected = code if isinstance(code, str) else code.expected(target.name)
    assert ErrorCode(ended.error_code).name == expected
    written = produce(wire, topic, batch(producer, 1), producer=producer)
    assert ErrorCode(written.error_code).name == "INVALID_PRODUCER_EPOCH"
    heir = new_identity(wire, topic)
    assert produce(wire, topic, batch(heir, 0), producer=heir).error_code == ErrorCode.NONE
    assert end_transaction(wire, heir, commit=True).error_code == ErrorCode.NONE
