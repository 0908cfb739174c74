"""Assignors distribute partitions over the members of a group (range, roundrobin,
cooperative-sticky).

The group's leader runs an assignor. Other members may be Java clients, so names, user data and
results are those of the Java client's assignors (KIP-429, and KIP-792 for cooperative-sticky).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from oncelog_client.values import TopicPartition

Assignment = dict[str, list[TopicPartition]]

_GENERATION: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription, and its partitions in its last generation. The generation is -1 if
    the member had none."""

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    group_instance_id: str | None = None


Members = Mapping[str, MemberSubscription]
AssignFunction = Callable[[Mapping[str, int], Members], Assignment]


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignor: its name on the wire, its function, and a flag. `cooperative`: members keep
    their partitions while they rejoin."""

    name: str
    cooperative: bool
    assign: AssignFunction

    def user_data(self, generation_id: int) -> bytes | None:
        """Return the user data of a member's subscription, or None for an assignor that is not
        cooperative. Java's cooperative-sticky writes the generation into the user data, for leaders
        that know only version 1 of the subscription."""
        return _GENERATION.pack(generation_id) if self.cooperative else None


def generation_in_user_data(user_data: bytes | None) -> int:
    """Return the generation that a cooperative-sticky member wrote, or -1 if there is none."""
    if user_data is None or len(user_data) < _GENERATION.size:
        return -1
    generation: int = _GENERATION.unpack_from(user_data)[0]
    return generation


def _in_order(members: Members) -> list[str]:
    """Return the members in order (Java's MemberInfo). Static members come first, by instance id.
    The others follow, by member id."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].group_instance_id
        return (instance_id is None, instance_id or member_id)

    return sorted(members, key=key)


def assign_range(partitions: Mapping[str, int], members: Members) -> Assignment:
    """Assign consecutive partitions of each topic to each member. If topics have the same number of
    partitions and the same subscribers, partition n of each topic goes to the same member.
    `partitions` maps a topic to its number of partitions."""
    assignment: Assignment = {member_id: [] for member_id in members}
    for topic in sorted(partitions):
        subscribers = [m for m in _in_order(members) if topic in members[m].topics]
        if not subscribers:
            continue
        each, more = divmod(partitions[topic], len(subscribers))
        start = 0
        for rank, member_id in enumerate(subscribers):
            end = start + each + (rank < more)
            assignment[member_id] += [TopicPartition(topic, p) for p in range(start, end)]
            start = end
    return assignment


def assign_round_robin(partitions: Mapping[str, int], members: Members) -> Assignment:
    """Sort all partitions and assign them in turn to the members that subscribe to their topic."""
    assignment: Assignment = {member_id: [] for member_id in members}
    wanted = frozenset[str]().union(*(member.topics for member in members.values()))
    turn = cycle(_in_order(members))
    for topic_partition in _all_partitions(partitions):
        if topic_partition.topic not in wanted:
            continue
        member_id = next(m for m in turn if topic_partition.topic in members[m].topics)
        assignment[member_id].append(topic_partition)
    return assignment


def assign_sticky(partitions: Mapping[str, int], members: Members) -> Assignment:
    """Assign as evenly as the subscriptions allow, and move as few partitions as possible."""
    order = _in_order(members)
    everything = [
        tp
        for tp in _all_partitions(partitions)
        if any(tp.topic in m.topics for m in members.values())
    ]
    owners = _valid_owners(frozenset(everything), members)
    held: dict[str, list[TopicPartition]] = {member_id: [] for member_id in order}
    for topic_partition in everything:
        if topic_partition in owners:
            held[owners[topic_partition]].append(topic_partition)
    candidates = {topic: [m for m in order if topic in members[m].topics] for topic in partitions}

    def least(topic: str) -> str:
        return min(candidates[topic], key=lambda member_id: len(held[member_id]))

    for topic_partition in everything:
        if topic_partition not in owners:
            member_id = owners[topic_partition] = least(topic_partition.topic)
            held[member_id].append(topic_partition)
    # Every move makes the sum of the squares of the members' numbers of partitions smaller, so the
    # loop ends.
    moved = True
    while moved:
        moved = False
        for topic_partition in everything:
            giver, taker = owners[topic_partition], least(topic_partition.topic)
            if len(held[taker]) + 1 < len(held[giver]):
                held[giver].remove(topic_partition)
                held[taker].append(topic_partition)
                owners[topic_partition] = taker
                moved = True
    return {member_id: sorted(held[member_id]) for member_id in members}


def assign_cooperative_sticky(partitions: Mapping[str, int], members: Members) -> Assignment:
    """Assign as `assign_sticky` does, without the partitions that another member still owns. The
    owner revokes these partitions in this round and rejoins. The next round assigns them
    (KIP-429)."""
    assignment = assign_sticky(partitions, members)
    holders: dict[TopicPartition, set[str]] = {}
    for member_id, member in members.items():
        for topic_partition in member.owned:
            holders.setdefault(topic_partition, set()).add(member_id)
    return {
        member_id: [tp for tp in assigned if not holders.get(tp, set()) - {member_id}]
        for member_id, assigned in assignment.items()
    }


def _all_partitions(partitions: Mapping[str, int]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in sorted(partitions)
        for partition in range(partitions[topic])
    ]


def _valid_owners(
    existing: frozenset[TopicPartition], members: Members
) -> dict[TopicPartition, str]:
    """Return the member that holds each partition. The higher generation counts. If two members
    claim a partition in the same generation, neither holds it, because one claim is wrong
    (KIP-792)."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, member in members.items():
        for tp in member.owned:
            if tp not in existing or tp.topic not in member.topics:
                continue
            generation, _ = best.get(tp, (-2, None))
            if member.generation_id > generation:
                best[tp] = (member.generation_id, member_id)
            elif member.generation_id == generation:
                best[tp] = (generation, None)
    return {tp: owner for tp, (_, owner) in best.items() if owner is not None}


ASSIGNORS: Final[dict[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", False, assign_range),
        Assignor("roundrobin", False, assign_round_robin),
        Assignor("cooperative-sticky", True, assign_cooperative_sticky),
    )
}


def cooperative(names: Sequence[str]) -> bool:
    """Return True if a member keeps its partitions while it rejoins. All assignors of the member
    must allow this, because the group may choose any of them."""
    return all(ASSIGNORS[name].cooperative for name in names)
