"""The unfinished ids of consumer groups in one shard (KIP-447, early draft): those with an open
transaction, a decided transaction that is not complete, or a pending decision.

Each InitProducerId in a group asks for the ids that share an input partition with the producer, and
for the open transactions of older generations. A group may have very many ids, and after a
rebalance each of them is initialized. So the ids are indexed, and a search does not look at the
other ids of the group. Only the replay of records and the effects of decisions change the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import TransactionMetadata
from oncelog_server.transaction.states import State


class _Live(Protocol):
    """A transactional id with its state, as in the shard."""

    metadata: TransactionMetadata

    @property
    def is_busy(self) -> bool: ...


class _Place(NamedTuple):
    """The places of an id in the index. `may_be_aborted`: its transaction is open, no decision is
    pending, and no external coordinator decides the outcome (KIP-939)."""

    membership: GroupAssignment
    may_be_aborted: bool


class UnfinishedIds:
    """`memberships` and `transactions` are those of the shard, by transactional id. `update` must
    follow each change of an id."""

    def __init__(
        self,
        memberships: Mapping[str, GroupAssignment],
        transactions: Mapping[str, _Live],
    ) -> None:
        self._memberships = memberships
        self._transactions = transactions
        self._places: dict[str, _Place] = {}
        # By group and input partition.
        self._assigned: dict[tuple[str, TopicPartition], set[str]] = {}
        # By group and generation: the ids with a transaction that may be aborted.
        self._open: dict[str, dict[int, set[str]]] = {}
        for transactional_id in memberships:
            self.update(transactional_id)

    def update(self, transactional_id: str) -> None:
        """Index an id again, after a change of its transaction or membership."""
        known = self._places.get(transactional_id)
        place = self._place_of(transactional_id)
        if place == known:
            return
        if known is not None:
            del self._places[transactional_id]
            self._remove(transactional_id, known)
        if place is not None:
            self._places[transactional_id] = place
            self._add(transactional_id, place)

    def _place_of(self, transactional_id: str) -> _Place | None:
        membership = self._memberships.get(transactional_id)
        live = self._transactions.get(transactional_id)
        if membership is None or live is None:
            return None
        is_busy = live.is_busy
        if not (is_busy or live.metadata.state is State.ONGOING):
            return None
        return _Place(membership, not is_busy and not live.metadata.is_two_phase)

    def _add(self, transactional_id: str, place: _Place) -> None:
        group_id, generation_id, partitions = place.membership
        for partition in partitions:
            self._assigned.setdefault((group_id, partition), set()).add(transactional_id)
        if place.may_be_aborted:
            generations = self._open.setdefault(group_id, {})
            generations.setdefault(generation_id, set()).add(transactional_id)

    def _remove(self, transactional_id: str, place: _Place) -> None:
        group_id, generation_id, partitions = place.membership
        for partition in partitions:
            ids = self._assigned[group_id, partition]
            ids.discard(transactional_id)
            if not ids:
                del self._assigned[group_id, partition]
        if place.may_be_aborted:
            generations = self._open[group_id]
            generations[generation_id].discard(transactional_id)
            if not generations[generation_id]:
                del generations[generation_id]
            if not generations:
                del self._open[group_id]

    # --- questions

    def sharing_input(self, membership: GroupAssignment) -> set[str]:
        """Return the unfinished ids of the group that have an input partition of `membership`."""
        found: set[str] = set()
        for partition in membership.partitions:
            found |= self._assigned.get((membership.group_id, partition), set())
        return found

    def open_before(self, membership: GroupAssignment) -> set[str]:
        """Return the ids of the group with an older generation than `membership`, and with a
        transaction that may be aborted."""
        found: set[str] = set()
        for generation_id, ids in self._open.get(membership.group_id, {}).items():
            if generation_id < membership.generation_id:
                found |= ids
        return found
