"""The promises of KIP-98 and KIP-890 for one transactional id, checked on records, markers and
responses alone, without the server's states and verdicts."""

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

# A producer instance, and the producer id and epoch that it got.
Owner = int
Identity = tuple[int, int]


@dataclass
class Auditor:
    """`handed` survives every crash: a response cannot be taken back."""

    handed: dict[Identity, Owner] = field(default_factory=dict)
    # Responses to EndTxn: (identity in the request, committed).
    ended: list[tuple[Identity, bool]] = field(default_factory=list)

    def gives(self, identity: Identity, owner: Owner) -> None:
        """I10: a producer id and epoch belong to one instance, for ever."""
        assert 0 <= identity[1] <= 32766, f"{identity} is no epoch for a producer"
        assert self.handed.setdefault(identity, owner) == owner, f"{identity} given twice"

    def audit(
        self,
        records: Sequence[CoordinatorRecord],
        markers: Sequence[tuple[MarkerWork, TopicPartition]],
    ) -> None:
        """Check everything. `records`: the committed log of the id. `markers`: all that were ever
        written."""
        values = [_value(record) for record in records]
        self._epochs_never_go_back(values)
        decided = _decisions(values)
        for identity, committed in self.ended:
            # I9: an acknowledged end is in the log. I7: with the same result.
            assert decided.get(identity) == committed, f"{identity} ended and the log does not know"
        _markers_follow_decisions(values, markers)

    @staticmethod
    def _epochs_never_go_back(values: Sequence[TransactionLogValue]) -> None:
        """I11."""
        epochs: dict[int, int] = {}
        last = -1
        last_keeper = (-1, -1)
        for value in values:
            assert value.producer_epoch >= epochs.get(value.producer_id, -1)
            epochs[value.producer_id] = value.producer_epoch
            if value.next_producer_epoch >= 0 and value.transaction_status == ONGOING:
                # Kept prepared: the producer that ends the transaction is newer than the one that
                # began it, and than an earlier keeper.
                keeper = (value.next_producer_id, value.next_producer_epoch)
                assert keeper > (value.producer_id, value.producer_epoch)
                assert keeper >= last_keeper
                last_keeper = keeper
            assert value.producer_id >= last, "a producer id that has been given up comes back"
            last = value.producer_id


def _value(record: CoordinatorRecord) -> TransactionLogValue:
    assert record.value is not None
    return decode_transaction_log_value(record.value)


def _owner(value: TransactionLogValue) -> Identity:
    """Return the producer id and epoch that the coordinator accepts: those of the keeper if the
    transaction is kept prepared (KIP-939)."""
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
    """Return the id's holder at each decision, and the result. I7: a transaction is decided once,
    and completed as decided."""
    decided: dict[Identity, bool] = {}
    prepared: bool | None = None
    before: TransactionLogValue | None = None
    for value in values:
        state = value.transaction_status
        if prepared is not None:
            assert COMPLETED.get(state) == prepared, "decided one way, completed another"
            prepared = None
        elif state in PREPARED:
            prepared = PREPARED[state]
            assert before is not None
            if before.transaction_status == ONGOING:
                assert _partitions(value) == _partitions(before), "a partition is forgotten (M12)"
                assert value.producer_id == before.producer_id, "markers of another producer (W2)"
                bumped = value.producer_epoch - before.producer_epoch
                assert bumped == 1 or (bumped == 0 and before.next_producer_epoch < 0)
                decided[_owner(before)] = prepared
            else:
                assert not prepared, "a commit of nothing"
                decided[_owner(before)] = False
        else:
            assert state not in COMPLETED, "completed and never decided"
            if state == ONGOING and before is not None and before.transaction_status == ONGOING:
                assert _partitions(before) <= _partitions(value)
                assert (
                    value.transaction_start_timestamp_ms == before.transaction_start_timestamp_ms
                ), "the clock of a transaction starts once (T6)"
        before = value
    return decided


def _markers_follow_decisions(
    values: Sequence[TransactionLogValue],
    markers: Sequence[tuple[MarkerWork, TopicPartition]],
) -> None:
    """I5, I6, I8: no marker without its decision, one result for each decision, all markers before
    COMPLETE.

    If the epoch stays the same between transactions (V1), the decisions of one epoch look alike, so
    each of them is allowed.
    """
    allowed: dict[Identity, dict[TopicPartition, set[bool]]] = {}
    for value in values:
        if value.transaction_status in PREPARED:
            wanted = allowed.setdefault((value.producer_id, value.producer_epoch), {})
            for partition in _partitions(value):
                wanted.setdefault(partition, set()).add(PREPARED[value.transaction_status])
    written: dict[Identity, dict[TopicPartition, set[bool]]] = {}
    for work, partition in markers:
        identity = (work.producer_id, work.producer_epoch)
        assert work.committed in allowed.get(identity, {}).get(partition, set()), "undecided marker"
        written.setdefault(identity, {}).setdefault(partition, set()).add(work.committed)
    if values and values[-1].transaction_status not in PREPARED:
        assert written == {identity: wanted for identity, wanted in allowed.items() if wanted}, (
            "a marker is missing"
        )
