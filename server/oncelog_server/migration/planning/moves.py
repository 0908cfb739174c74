"""The records of coordinators that must be in another partition for Apache Kafka.

They move for two reasons. Kafka takes the absolute value of an id's hash
(`ClusterRecord.absolute_hash`). And only oncelog stores a transactional id that has joined a group
in the partition of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.group_metadata import decode_key
from oncelog_protocol.internal.transaction_log import (
    TransactionLogValue,
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.coordinator.routing import kafkas_partition_for
from oncelog_server.migration.planning.coordinator_records import CoordinatorRecords
from oncelog_server.migration.planning.transactions import is_own_record

# By the number of the partition.
Folders = Mapping[int, CoordinatorRecords]
_DECIDED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class Moves(msgspec.Struct):
    """The records to append, by (topic, partition) and key. The value is None for a key that moves
    away.

    `ids` is the number of ids that move. `refusals` are the reasons for which the records cannot be
    moved.
    """

    records: dict[tuple[str, int], dict[bytes, bytes | None]] = {}
    ids: int = 0
    refusals: list[str] = []

    def _append(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self.records.setdefault((topic, partition), {})[key] = value

    def _move(self, topic: str, source: int, target: int, key: bytes, value: bytes | None) -> None:
        self._append(topic, source, key, None)
        if value is not None:
            self._append(topic, target, key, value)


def moves_to_kafka(offsets: Folders, transactions: Folders) -> Moves:
    """Return the moves for the partitions of `__consumer_offsets` and of `__transaction_state`."""
    moves = Moves()
    _move_groups(offsets, moves)
    _move_transactions(transactions, moves)
    return moves


def _move_groups(folders: Folders, moves: Moves) -> None:
    moved: set[str] = set()
    for partition, found in folders.items():
        for key, value in found.newest.items():
            group = _group_of(key)
            target = partition if group is None else kafkas_partition_for(group, len(folders))
            if group is not None and target != partition:
                moved.add(group)
                moves._move(CONSUMER_OFFSETS, partition, target, key, value)
        pending = {_group_of(key) for keys in found.pending.values() for key in keys}
        for group in sorted(group for group in pending if group is not None):
            if kafkas_partition_for(group, len(folders)) != partition:
                moves.refusals.append(
                    f"an open transaction has offsets of group {group}: end the transaction first"
                )
    moves.ids += len(moved)


def _group_of(key: bytes) -> str | None:
    """Return the group of a record, None for a record that is no classic group's."""
    try:
        return decode_key(key).group
    except (ProtocolError, UnknownRecordVersion):
        return None


class _State(NamedTuple):
    """A record of a transactional id, in the partition `partition`."""

    partition: int
    key: bytes
    data: bytes
    value: TransactionLogValue

    @property
    def age(self) -> tuple[int, int]:
        """The newest record of an id has the highest value."""
        return self.value.transaction_last_update_timestamp_ms, self.value.producer_id


def _move_transactions(folders: Folders, moves: Moves) -> None:
    found = _states(folders, moves)
    ongoing: set[str] = set()
    for id_, states in found.items():
        newest = max(states, key=lambda state: state.age)
        ongoing.update(
            id_ for state in states if state.value.transaction_status == TransactionState.ONGOING
        )
        target = kafkas_partition_for(id_, len(folders))
        moves.ids += newest.partition != target
        for state in states:
            # An id that joins a group of transactions leaves a record at its former coordinator.
            if state.partition != target:
                moves._append(TRANSACTION_STATE, state.partition, state.key, None)
        if newest.partition != target:
            moves._append(TRANSACTION_STATE, target, newest.key, newest.data)
    for id_, states in found.items():
        for state in states:
            members = {member.transactional_id for member in state.value.decided_members}
            if state.value.transaction_status in _DECIDED and ongoing & members:
                moves.refusals.append(
                    f"the group commit of {id_} is not complete: start the broker, and stop it "
                    "again"
                )


def _states(folders: Folders, moves: Moves) -> dict[str, list[_State]]:
    """Return the records of each transactional id. Oncelog's own records are deleted."""
    found: dict[str, list[_State]] = {}
    for partition, records in folders.items():
        for key, data in records.newest.items():
            if is_own_record(key):
                moves._append(TRANSACTION_STATE, partition, key, None)
                continue
            try:
                id_ = decode_transaction_log_key(key).transactional_id
                state = _State(partition, key, data, decode_transaction_log_value(data))
            except (ProtocolError, UnknownRecordVersion) as error:
                moves.refusals.append(f"{TRANSACTION_STATE}-{partition}: {error}")
                continue
            found.setdefault(id_, []).append(state)
    return found
