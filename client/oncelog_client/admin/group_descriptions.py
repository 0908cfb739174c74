"""Groups as the admin client describes them. Names as in the Java client."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_client.values import Node, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as it is listed."""

    group_id: str
    protocol_type: str
    state: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a classic group, with the partitions the last rebalance gave it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group. `partition_assignor` is empty while the group has none."""

    group_id: str
    state: str
    protocol_type: str
    partition_assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]
