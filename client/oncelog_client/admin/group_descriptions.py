"""The admin client's descriptions of groups. The names are those of the Java client."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_client.values import Node, TopicPartition


class GroupListing(NamedTuple):
    """A group in a list of groups."""

    group_id: str
    protocol_type: str
    state: str
    type: str = ""


class MemberDescription(NamedTuple):
    """A member of a classic group, with its partitions of the last rebalance."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A classic group. `partition_assignor` is empty if the group has none."""

    group_id: str
    state: str
    protocol_type: str
    partition_assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]
