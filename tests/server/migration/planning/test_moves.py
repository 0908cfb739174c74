"""The records of coordinators that Apache Kafka looks for in another partition."""

from __future__ import annotations

import pytest

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    OffsetCommitKey,
    encode_group_metadata_key,
    encode_offset_commit_key,
)
from oncelog_protocol.internal.transaction_group import (
    TransactionGroupKey,
    encode_transaction_group_key,
)
from oncelog_protocol.internal.transaction_log import (
    DecidedMember,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_server.migration.planning.coordinator_records import CoordinatorRecords
from oncelog_server.migration.planning.moves import Folders, Moves, moves_to_kafka

OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
# In partition 10 of 50 by oncelog's hash, in partition 38 by Kafka's.
ID = "myProducer"
OURS, KAFKAS, COUNT = 10, 38, 50
OFFSET_KEY = encode_offset_commit_key(OffsetCommitKey(ID, "orders", 0))
GROUP_KEY = encode_group_metadata_key(GroupMetadataKey(ID))
ID_KEY = encode_transaction_log_key(TransactionLogKey(ID))


def folders(**records: CoordinatorRecords) -> Folders:
    """Return 50 folders. The argument `p10` has the records of partition 10."""
    return {number: records.get(f"p{number}", CoordinatorRecords()) for number in range(COUNT)}


def state(status: TransactionState, *members: str, updated_ms: int = 1) -> bytes:
    return encode_transaction_log_value(
        TransactionLogValue(
            transaction_status=status,
            transaction_last_update_timestamp_ms=updated_ms,
            decided_members=[DecidedMember(name) for name in members],
        )
    )


def test_a_group_moves_with_all_its_records() -> None:
    found = CoordinatorRecords({OFFSET_KEY: b"5", GROUP_KEY: b"g"})
    moves = moves_to_kafka(folders(p10=found), folders())
    assert moves == Moves(
        {
            (OFFSETS, OURS): {OFFSET_KEY: None, GROUP_KEY: None},
            (OFFSETS, KAFKAS): {OFFSET_KEY: b"5", GROUP_KEY: b"g"},
        },
        ids=1,
    )


def test_a_transactional_id_moves() -> None:
    value = state(TransactionState.ONGOING)
    moves = moves_to_kafka(folders(), folders(p10=CoordinatorRecords({ID_KEY: value})))
    assert moves == Moves({(STATE, OURS): {ID_KEY: None}, (STATE, KAFKAS): {ID_KEY: value}}, ids=1)


def test_an_id_in_kafkas_partition_stays() -> None:
    found = CoordinatorRecords({ID_KEY: state(TransactionState.EMPTY)})
    assert moves_to_kafka(folders(p38=CoordinatorRecords({OFFSET_KEY: b"5"})), {}) == Moves()
    assert moves_to_kafka({}, folders(p38=found)) == Moves()


@pytest.mark.parametrize("former", [OURS, KAFKAS])
def test_the_record_at_a_former_coordinator_is_replaced(former: int) -> None:
    """A transactional id that joins a group of transactions leaves a record behind."""
    old, new = (state(TransactionState.COMPLETE_ABORT, updated_ms=at) for at in (5, 6))
    records = {f"p{former}": CoordinatorRecords({ID_KEY: old})}
    found = folders(p7=CoordinatorRecords({ID_KEY: new}), **records)
    moves = moves_to_kafka({}, found)
    assert moves.records.pop((STATE, KAFKAS)) == {ID_KEY: new}
    assert moves.records == {(STATE, at): {ID_KEY: None} for at in {7, former} - {KAFKAS}}
    assert moves.ids == 1


def test_oncelogs_own_records_are_deleted() -> None:
    key = encode_transaction_group_key(TransactionGroupKey("g", ID))
    moves = moves_to_kafka({}, folders(p38=CoordinatorRecords({key: b"v"})))
    assert moves == Moves({(STATE, KAFKAS): {key: None}})


def test_records_of_other_types_stay() -> None:
    found = CoordinatorRecords({b"\0\x03\0\x01g": b"v"})
    assert moves_to_kafka(folders(p10=found), {}) == Moves()


@pytest.mark.parametrize(("partition", "refused"), [(OURS, True), (KAFKAS, False)])
def test_pending_offsets_cannot_move(partition: int, refused: bool) -> None:
    found = CoordinatorRecords(pending={7: {OFFSET_KEY: b"5"}})
    moves = moves_to_kafka(folders(**{f"p{partition}": found}), {})
    expected = f"an open transaction has offsets of group {ID}: end the transaction first"
    assert moves.refusals == ([expected] if refused else [])


@pytest.mark.parametrize(
    ("member", "refused"),
    [
        (TransactionState.ONGOING, True),
        (TransactionState.PREPARE_COMMIT, False),
        (TransactionState.COMPLETE_COMMIT, False),
    ],
)
def test_an_incomplete_group_commit_is_refused(member: TransactionState, refused: bool) -> None:
    """Kafka does not know that the record of one transaction decides others too."""
    other = encode_transaction_log_key(TransactionLogKey("other"))
    found = CoordinatorRecords(
        {ID_KEY: state(TransactionState.PREPARE_COMMIT, "other"), other: state(member)}
    )
    refusals = moves_to_kafka({}, folders(p38=found)).refusals
    assert [f"the group commit of {ID} is not complete" in text for text in refusals] == (
        [True] if refused else []
    )


def test_an_unknown_record_is_refused() -> None:
    found = CoordinatorRecords({ID_KEY: b"\0\x09"})
    (refusal,) = moves_to_kafka({}, folders(p38=found)).refusals
    assert refusal == f"{STATE}-38: unknown version 9 of a transaction log value"
