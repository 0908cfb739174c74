"""The consumer groups of the transactional ids in one shard (KIP-447, early draft).

The newest generation of a group is the highest generation of its ids. The ids that have left count
too, because the departure of an id must not lower the group's generation. Only the replay of
records changes memberships and newest generations. `expect` and `settle` change the generations in
flight, and `note` changes only messages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from oncelog_protocol.internal.transaction_group import (
    AssignedTopic,
    TransactionGroupKey,
    TransactionGroupValue,
    decode_transaction_group_key,
    decode_transaction_group_value,
    encode_transaction_group_key,
    encode_transaction_group_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client

# The transactional id in the key of a record that keeps the newest generation of a group after ids
# have left it.
LEFT: Final = ""


class GroupAssignment(NamedTuple):
    """The input partitions that a consumer group has assigned to the process of a transactional id,
    and the generation of the assignment."""

    group_id: str
    generation_id: int
    partitions: frozenset[TopicPartition]


class Brought(NamedTuple):
    """The time (wall clock) and client of the first member of a generation."""

    generation_id: int
    at_ms: int
    by: Client | None


class TransactionGroups:
    """Groups by transactional id. `ids` counts the transactional ids that have a group, including
    ids with an uncommitted record of the membership. All shards of a coordinator may share `ids`.
    An id may move from one group to another in another shard. The new shard may replay the arrival
    before the old shard replays the departure, so `ids` counts instead of just containing the
    id."""

    __slots__ = (
        "_brought",
        "_coming",
        "_generations",
        "_ids",
        "_left",
        "_newest",
        "_of_group",
        "memberships",
        "on_change",
    )

    def __init__(self, ids: Counter[str] | None = None) -> None:
        # By transactional id.
        self.memberships: dict[str, GroupAssignment] = {}
        # Called with each id that has got, changed or lost its membership.
        self.on_change: Callable[[str], None] | None = None
        self._of_group: dict[str, set[str]] = {}
        # By group: the number of its ids in each generation.
        self._generations: dict[str, Counter[int]] = {}
        # By group: the newest generation of its ids. Ids that have left the group count too.
        self._newest: dict[str, int] = {}
        self._left: dict[str, int] = {}
        # By group and generation: the ids with an appended record that is not committed yet.
        self._coming: dict[str, dict[int, Counter[str]]] = {}
        # By group, for messages. This information is in memory only.
        self._brought: dict[str, Brought] = {}
        self._ids = Counter() if ids is None else ids

    # --- replay

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record. Records of other types are skipped. Raises ValueError for an invalid
        record."""
        try:
            key = decode_transaction_group_key(record.key)
        except UnknownRecordVersion:
            return
        if key.transactional_id == LEFT:
            self._replay_left(key.group_id, record.value)
            return
        membership = self.memberships.get(key.transactional_id)
        if record.value is None:
            if membership is not None and membership.group_id == key.group_id:
                self.forget(key.transactional_id)
            return
        value = decode_transaction_group_value(record.value)
        if membership is not None and membership.group_id != key.group_id:
            self.forget(key.transactional_id)
            membership = None
        if membership is None:
            self._ids[key.transactional_id] += 1
        else:
            self._subtract(membership)
        partitions = frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.assigned_partitions
            for partition in topic.partitions
        )
        self.memberships[key.transactional_id] = GroupAssignment(
            key.group_id, value.generation_id, partitions
        )
        self._of_group.setdefault(key.group_id, set()).add(key.transactional_id)
        self._generations.setdefault(key.group_id, Counter())[value.generation_id] += 1
        newest = max(self._newest.get(key.group_id, -1), value.generation_id)
        self._newest[key.group_id] = newest
        if self.on_change is not None:
            self.on_change(key.transactional_id)

    def _subtract(self, membership: GroupAssignment) -> None:
        generations = self._generations[membership.group_id]
        generations[membership.generation_id] -= 1
        if not generations[membership.generation_id]:
            del generations[membership.generation_id]

    def _replay_left(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self._left.pop(group_id, None)
        else:
            self._left[group_id] = decode_transaction_group_value(value).generation_id

    def forget(self, transactional_id: str) -> None:
        """Remove an id that was deleted, or that now belongs to another group."""
        membership = self.memberships.pop(transactional_id, None)
        if membership is None:
            return
        self._discount(transactional_id)
        self._subtract(membership)
        ids = self._of_group[membership.group_id]
        ids.discard(transactional_id)
        if not ids:
            del self._of_group[membership.group_id]
            del self._generations[membership.group_id]
            del self._newest[membership.group_id]
            self._brought.pop(membership.group_id, None)
        if self.on_change is not None:
            self.on_change(transactional_id)

    def _discount(self, transactional_id: str) -> None:
        self._ids[transactional_id] -= 1
        if not self._ids[transactional_id]:
            del self._ids[transactional_id]

    def on_unloaded(self) -> None:
        """Remove all ids, because another broker leads the shard now."""
        for transactional_id in list(self.memberships):
            self.forget(transactional_id)
        self._left.clear()
        for generations in self._coming.values():
            for coming in generations.values():
                for transactional_id in coming.elements():
                    self._discount(transactional_id)
        self._coming.clear()

    # --- questions

    def newest_generation(self, group_id: str) -> int:
        """Return the newest generation of a group. Return -1 if the group has no transactional
        ids."""
        return max(self._newest.get(group_id, -1), self._left.get(group_id, -1))

    def coming_generation(self, group_id: str) -> int:
        """Return the newest generation in flight. Return -1 if there is none."""
        return max(self._coming.get(group_id, ()), default=-1)

    def note(self, membership: GroupAssignment, at_ms: int, by: Client | None) -> None:
        """Remember the time and client of a generation's first producer."""
        known = self._brought.get(membership.group_id)
        if known is None or known.generation_id < membership.generation_id:
            self._brought[membership.group_id] = Brought(membership.generation_id, at_ms, by)

    def brought(self, group_id: str) -> Brought | None:
        """Return the time and client of the newest generation. Return None if the generation began
        before this coordinator took over."""
        found = self._brought.get(group_id)
        newest = self.newest_generation(group_id)
        return found if found is not None and found.generation_id == newest else None

    def is_outdated(self, transactional_id: str) -> bool:
        """Return True if the group has a newer generation than this id. Only InitProducerId is then
        allowed for the id. Return False for an id without a group."""
        membership = self.memberships.get(transactional_id)
        return membership is not None and (
            membership.generation_id < self.newest_generation(membership.group_id)
        )

    def ids_of(self, group_id: str) -> list[str]:
        """Return the ids of the group, sorted."""
        return sorted(self._of_group.get(group_id, ()))

    # --- records

    def registration(
        self, transactional_id: str, membership: GroupAssignment
    ) -> tuple[CoordinatorRecord, ...]:
        """Return the records that make the id a member. Return no records if the id is already a
        member with the same values."""
        known = self.memberships.get(transactional_id)
        if known == membership:
            return ()
        moves = known is not None and known.group_id != membership.group_id
        left = self.removal((transactional_id,)) if moves else ()
        return (*left, to_record(transactional_id, membership))

    def expect(self, transactional_id: str, membership: GroupAssignment) -> None:
        """Count a record of this membership that was appended and is not committed yet."""
        generations = self._coming.setdefault(membership.group_id, {})
        generations.setdefault(membership.generation_id, Counter())[transactional_id] += 1
        self._ids[transactional_id] += 1

    def settle(self, transactional_id: str, membership: GroupAssignment) -> None:
        """Undo `expect`, because the record was committed or never will be. After `on_unloaded`
        there is nothing to undo."""
        generations = self._coming.get(membership.group_id, {})
        coming = generations.get(membership.generation_id, Counter())
        if transactional_id not in coming:
            return
        self._discount(transactional_id)
        coming[transactional_id] -= 1
        if not coming[transactional_id]:
            del coming[transactional_id]
        if not coming:
            del generations[membership.generation_id]
        if not generations:
            del self._coming[membership.group_id]

    def removal(self, transactional_ids: Iterable[str]) -> tuple[CoordinatorRecord, ...]:
        """Return the tombstones that remove ids from their groups. An id without a group needs no
        tombstone. The removal of the last id also removes the group."""
        leaving: defaultdict[str, set[str]] = defaultdict(set)
        records = []
        for transactional_id in transactional_ids:
            membership = self.memberships.get(transactional_id)
            if membership is not None:
                leaving[membership.group_id].add(transactional_id)
                records.append(CoordinatorRecord(_key(transactional_id, membership.group_id), None))
        for group_id, ids in leaving.items():
            records += self._remembered(group_id, ids)
        return tuple(records)

    def departure(self, transactional_id: str, group_id: str) -> tuple[CoordinatorRecord, ...]:
        """Return the tombstones that remove the id from the group. If the id is not in the group,
        the tombstone changes nothing."""
        known = self.memberships.get(transactional_id)
        if known is not None and known.group_id == group_id:
            return self.removal((transactional_id,))
        return (CoordinatorRecord(_key(transactional_id, group_id), None),)

    def _remembered(self, group_id: str, leaving: set[str]) -> list[CoordinatorRecord]:
        """Return the record that keeps the group's newest generation when the ids `leaving` are no
        longer in the group. Return no record if another id has the newest generation, or if an
        earlier record already keeps the newest generation. If no id remains, return the tombstone
        of the earlier record, if there is one."""
        newest = self.newest_generation(group_id)
        left = Counter(self.memberships[member].generation_id for member in leaving)
        staying = self._generations[group_id].items()
        kept = max((number for number, ids in staying if ids > left[number]), default=None)
        if kept is None:
            return [CoordinatorRecord(_key(LEFT, group_id), None)] if group_id in self._left else []
        if max(kept, self._left.get(group_id, -1)) == newest:
            return []
        return [to_record(LEFT, GroupAssignment(group_id, newest, frozenset()))]


def to_record(transactional_id: str, membership: GroupAssignment) -> CoordinatorRecord:
    """Return the record for `__transaction_state`. Partitions are sorted, so that equal states have
    equal bytes."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(membership.partitions):
        by_topic[topic].append(partition)
    value = TransactionGroupValue(
        generation_id=membership.generation_id,
        assigned_partitions=[AssignedTopic(name, numbers) for name, numbers in by_topic.items()],
    )
    return CoordinatorRecord(
        _key(transactional_id, membership.group_id), encode_transaction_group_value(value)
    )


def _key(transactional_id: str, group_id: str) -> bytes:
    return encode_transaction_group_key(TransactionGroupKey(group_id, transactional_id))
