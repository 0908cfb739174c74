"""The brokers of new partitions: round robin over racks, or as the request says, by Kafka's
rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from zlib import crc32

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.refusal import Refused

Assignment = tuple[int, ...]
# The racks of brokers by broker id.
Racks = Mapping[int, str | None]


class Placeable(msgspec.Struct, frozen=True):
    """The brokers for new partitions, with their racks. Those of `others` are registered, but are
    fenced or drain: they come last, and never first in an assignment."""

    live: Racks
    others: Racks = {}

    @classmethod
    def of(cls, image: ClusterImage) -> Placeable:
        live = {
            broker.id: broker.rack
            for broker in image.brokers.values()
            if broker.id not in image.draining
        }
        known = {broker.id: broker.rack for broker in image.brokers.values()}
        known |= {broker_id: fenced.rack for broker_id, fenced in image.fenced.items()}
        others = {broker_id: rack for broker_id, rack in known.items() if broker_id not in live}
        return cls(live, others)


def start_for(name: str, topic_id: bytes) -> int:
    """Return the place of a topic's first leader. It depends on the topic's id, to spread the
    leaders of topics over the brokers. Otherwise the first broker would lead every topic with a
    single partition. The topics of both coordinators begin at the same place: the offsets and the
    transaction of an application then often have the same leader."""
    return 0 if is_internal(name) else crc32(topic_id)


def place(
    brokers: Placeable, start: int, first_partition: int, count: int, replication_factor: int
) -> list[Assignment]:
    """Return the replicas of `count` partitions; the first of each is its preferred leader.

    Leaders go round robin from the broker at place `start`. Neighbors in this order are in
    different racks, and each replica is in another rack as long as there are racks without one
    (KIP-36). The distance between a leader and its other replicas grows with each round, so that
    the partitions of a failed broker do not all move to the same broker. Raises Refused if there
    are fewer brokers than `replication_factor`, or if all are fenced.
    """
    registered = len(brokers.live) + len(brokers.others)
    if replication_factor > registered:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{registered} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    if not brokers.live:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are "
            "currently fenced, or have all their log directories cordoned.",
        )
    ordered = _alternating(brokers.live)
    others = _alternating(brokers.others)
    size = len(ordered)
    # A topic has up to 10,000 partitions but few different assignments.
    known: dict[tuple[int, int], Assignment] = {}
    assignments = []
    for position in range(start + first_partition, start + first_partition + count):
        turn, leader = divmod(position, size)
        shift = turn % (size - 1) if size > 1 else 0
        found = known.get((leader, shift))
        if found is None:
            following = [ordered[(leader + 1 + step) % size] for step in range(size - 1)]
            candidates = [ordered[leader], *following[shift:], *following[:shift]]
            found = _spread(candidates, brokers.live, replication_factor)
            found += tuple(others[: replication_factor - len(found)])
            known[leader, shift] = found
        assignments.append(found)
    return assignments


def _alternating(racks: Racks) -> list[int]:
    """Return the brokers so that neighbors are in different racks, as far as possible (Kafka's
    AdminUtils.getRackAlternatedBrokerList). Without racks, they are in the order of their ids."""
    by_rack: dict[str | None, list[int]] = defaultdict(list)
    for broker_id in sorted(racks):
        by_rack[racks[broker_id]].append(broker_id)
    if len(by_rack) < 2:
        return sorted(racks)
    ordered = []
    lists = [by_rack[rack] for rack in sorted(by_rack, key=lambda rack: rack or "")]
    for place_in_rack in range(max(map(len, lists))):
        ordered += [members[place_in_rack] for members in lists if place_in_rack < len(members)]
    return ordered


def _spread(candidates: Sequence[int], racks: Racks, count: int) -> Assignment:
    """Return `count` of the candidates: first the first candidate of each rack, then the others,
    each in their order."""
    if len(set(racks.values())) < 2:
        return tuple(candidates[:count])
    chosen: list[int] = []
    used: set[str | None] = set()
    for broker_id in candidates:
        if racks[broker_id] not in used:
            used.add(racks[broker_id])
            chosen.append(broker_id)
    chosen += [broker_id for broker_id in candidates if broker_id not in chosen]
    return tuple(chosen[:count])


def check_assignment(
    replicas: Sequence[int], brokers: Collection[int], replication_factor: int | None
) -> None:
    """Raise Refused with INVALID_REPLICA_ASSIGNMENT if a partition cannot have these replicas.

    `replication_factor` is the number of replicas that it must have; None allows any number.
    """
    if not replicas:
        raise _invalid("includes an empty replica list.")
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _invalid(f"includes broker {broker}, but no such broker is registered.")
        if replicas.count(broker) > 1:
            raise _invalid(f"includes the broker {broker} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid(
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s)."
        )


def _invalid(reason: str) -> Refused:
    message = f"The manual partition assignment {reason}"
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
