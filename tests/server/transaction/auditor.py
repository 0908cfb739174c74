"""The promises of KIP-98 and KIP-890 for one transactional id. The auditor checks them on records,
markers and responses alone, without the server's state machine. docs/testing.md lists the
invariants (I5 to I11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oncelog_protocol.internal.transaction_log import (
    TransactionLogValue,
    decode_transaction_log_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.markers import MarkerWork

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
PREPARED = {PREPARE_COMMIT: True, PREPARE_ABORT: False}
COMPLETED = {COMPLETE_COMMIT: True, COMPLETE_ABORT: False}

# Owner: a producer instance. Identity: a producer id and epoch that it got.
Owner = int
Identity = tuple[int, int]


@dataclass
class Auditor:
    """Collects responses, and checks the log of the transactional id against them. `handed` has the
    producer ids and epochs that responses gave to clients. It survives every crash, because a sent
    response cannot be undone."""

    handed: dict[Identity, Owner] = field(default_factory=dict)
    # Responses to EndTxn: (identity in the request, committed).
    ended: list[tuple[Identity, bool]] = field(default_factory=list)

    def gives(self, identity: Identity, owner: Owner) -> None:
        """Record that `owner` got this producer id and epoch. Check that no other instance ever got
        them (I10)."""
        assert 0 <= identity[1] <= 32766, f"no producer may have the epoch of {identity}"
        assert self.handed.setdefault(identity, owner) == owner, f"{identity} given twice"

    def audit(
        self,
        records: Sequence[CoordinatorRecord],
        markers: Sequence[tuple[MarkerWork, TopicPartition]],
    ) -> None:
        """Check all promises. `records` is the committed log of the id. `markers` are all markers
        ever written."""
        values = [_value(record) for record in records]
        self._epochs_never_go_back(values)
        decided = _decisions(values)
        for identity, committed in self.ended:
            # The log has every acknowledged end (I9), with the same outcome (I7).
            assert decided.get(identity) == committed, f"the log lacks the end of {identity}"
        _markers_follow_decisions(values, markers)

    @staticmethod
    def _epochs_never_go_back(values: Sequence[TransactionLogValue]) -> None:
        """Check that producer ids and epochs never decrease (I11)."""
        epochs: dict[int, int] = {}
        last = -1
        last_keeper = (-1, -1)
        for value in values:
            assert value.producer_epoch >= epochs.get(value.producer_id, -1)
            epochs[value.producer_id] = value.producer_epoch
            if value.next_producer_epoch >= 0 and value.transaction_status == ONGOING:
                # The transaction is kept prepared. Its keeper (the instance that keeps it) is newer
                # than the producer that began the transaction, and not older than an earlier
                # keeper.
                keeper = (value.next_producer_id, value.next_producer_epoch)
                assert keeper > (value.producer_id, value.producer_epoch)
                assert keeper >= last_keeper
                last_keeper = keeper
            assert value.producer_id >= last, "the id returns to an older producer id"
            last = value.producer_id


def _value(record: CoordinatorRecord) -> TransactionLogValue:
    assert record.value is not None
    return decode_transaction_log_value(record.value)


def _owner(value: TransactionLogValue) -> Identity:
    """Return the producer id and epoch that the coordinator accepts. If the transaction is kept
    prepared (KIP-939), these are the keeper's."""
    if value.next_producer_epoch >= 0:
        return value.next_producer_id, value.next_producer_epoch
    return value.producer_id, value.producer_epoch


def _partitions(value: TransactionLogValue) -> set[TopicPartition]:
    return {
        TopicPartition(topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    }


def _decisions(values: Sequence[TransactionLogValue]) -> dict[Identity, bool]:
    """Return the outcome of each decided transaction by its producer id and epoch. Check that each
    transaction is decided once and completed with that outcome (I7)."""
    decided: dict[Identity, bool] = {}
    prepared: bool | None = None
    before: TransactionLogValue | None = None
    for value in values:
        state = value.transaction_status
        if prepared is not None:
            assert COMPLETED.get(state) == prepared, (
                "completed with a different outcome than decided"
            )
            prepared = None
        elif state in PREPARED:
            prepared = PREPARED[state]
            assert before is not None
            if before.transaction_status == ONGOING:
                assert _partitions(value) == _partitions(before), "PREPARE lacks a partition (M12)"
                assert value.producer_id == before.producer_id, "markers of another producer (W2)"
                bumped = value.producer_epoch - before.producer_epoch
                assert bumped == 1 or (bumped == 0 and before.next_producer_epoch < 0)
                decided[_owner(before)] = prepared
            else:
                assert not prepared, "a commit without a transaction"
                decided[_owner(before)] = False
        else:
            assert state not in COMPLETED, "a transaction is completed but was never decided"
            if state == ONGOING and before is not None and before.transaction_status == ONGOING:
                assert _partitions(before) <= _partitions(value)
                assert (
                    value.transaction_start_timestamp_ms == before.transaction_start_timestamp_ms
                ), "the start time of a transaction must not change (T6)"
        before = value
    return decided


def _markers_follow_decisions(
    values: Sequence[TransactionLogValue],
    markers: Sequence[tuple[MarkerWork, TopicPartition]],
) -> None:
    """Check that every marker has a decision with the same outcome (I5, I6), and that all markers
    are written before COMPLETE (I8).

    Before transaction version 2, several transactions can have the same epoch. A marker of the
    epoch may then have the outcome of any of them."""
    allowed: dict[Identity, dict[TopicPartition, set[bool]]] = {}
    for value in values:
        if value.transaction_status in PREPARED:
            wanted = allowed.setdefault((value.producer_id, value.producer_epoch), {})
            for partition in _partitions(value):
                wanted.setdefault(partition, set()).add(PREPARED[value.transaction_status])
    written: dict[Identity, dict[TopicPartition, set[bool]]] = {}
    for work, partition in markers:
        identity = (work.producer_id, work.producer_epoch)
        assert work.committed in allowed.get(identity, {}).get(partition, set()), (
            "a marker without a decision"
        )
        written.setdefault(identity, {}).setdefault(partition, set()).add(work.committed)
    if values and values[-1].transaction_status not in PREPARED:
        assert written == {identity: wanted for identity, wanted in allowed.items() if wanted}, (
            "a marker is missing"
        )
