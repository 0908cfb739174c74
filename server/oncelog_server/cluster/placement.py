"""The brokers of new partitions: round robin, or as the request says, by Kafka's rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

Assignment = tuple[int, ...]


def place(
    brokers: Collection[int], first_partition: int, count: int, replication_factor: int
) -> list[Assignment]:
    """Return the replicas of `count` partitions; the first of each is its preferred leader.

    Leaders go round robin. The distance between a leader and its other replicas grows with each
    round, so that the partitions of a failed broker do not all move to the same broker. Raises
    Refused if there are fewer brokers than `replication_factor`.
    """
    ordered = sorted(brokers)
    if replication_factor > len(ordered):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(ordered)} broker(s) are registered.",
        )
    size = len(ordered)
    assignments = []
    for partition in range(first_partition, first_partition + count):
        turn, leader = divmod(partition, size)
        others = [ordered[(leader + 1 + step) % size] for step in range(size - 1)]
        start = turn % (size - 1) if size > 1 else 0
        replicas = (ordered[leader], *others[start:], *others[:start])
        assignments.append(replicas[:replication_factor])
    return assignments


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
