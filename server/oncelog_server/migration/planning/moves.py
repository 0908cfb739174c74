"""The records of coordinators that must be in another partition for Apache Kafka.

Kafka takes the absolute value of an id's hash (`ClusterRecord.absolute_hash`), and a transactional
id that has joined a group of transactions is in the partition of its group only in oncelog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.group_metadata import decode_key
from oncelog_protocol.internal.transaction_group import decode_transaction_group_key
from oncelog_protocol.internal.transaction_log import (
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.coordinator.routing import kafkas_partition_for
from oncelog_server.migration.planning.coordinator_records import CoordinatorRecords

# By the number of the partition.
Folders = Mapping[int, CoordinatorRecords]
_DECIDED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class Moves(msgspec.Struct):
    """The records to append by (topic, partition): a value, or None for a key that moves away.

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


def _move_transactions(folders: Folders, moves: Moves) -> None:
    ongoing: set[str] = set()
    deciders: dict[str, list[str]] = {}
    for partition, found in folders.items():
        for key, value in found.newest.items():
            if _is_transaction_group(key):
                moves._append(TRANSACTION_STATE, partition, key, None)
                continue
            try:
                id_ = decode_transaction_log_key(key).transactional_id
                state = decode_transaction_log_value(value)
            except (ProtocolError, UnknownRecordVersion) as error:
                moves.refusals.append(f"{TRANSACTION_STATE}-{partition}: {error}")
                continue
            if state.transaction_status == TransactionState.ONGOING:
                ongoing.add(id_)
            if state.transaction_status in _DECIDED and state.decided_members:
                deciders[id_] = [member.transactional_id for member in state.decided_members]
            target = kafkas_partition_for(id_, len(folders))
            if target != partition:
                moves.ids += 1
                moves._move(TRANSACTION_STATE, partition, target, key, value)
    for id_, members in deciders.items():
        if ongoing.intersection(members):
            moves.refusals.append(
                f"the group commit of {id_} is not complete: start the broker, and stop it again"
            )


def _is_transaction_group(key: bytes) -> bool:
    """Return True for a record of oncelog's own type, which Kafka's coordinator skips."""
    try:
        decode_transaction_group_key(key)
    except (ProtocolError, UnknownRecordVersion):
        return False
    return True
