"""The read models of consumer groups and their coordinator, for operators."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.loads import LoadView


class GroupView(msgspec.Struct, frozen=True, gc=False):
    """A group in a list of groups. `state` and `type` are Kafka's names."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberView(msgspec.Struct, frozen=True, gc=False):
    """A member of a group. `metadata` is the member's metadata for the group's protocol, empty
    while the members do not agree on a protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDetails(msgspec.Struct, frozen=True):
    """A group in full, with its members in joining order. `state` is Kafka's name. `protocol_name`
    is empty unless all members agree on it."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[MemberView, ...]


class GroupOffset(msgspec.Struct, frozen=True):
    """A committed offset."""

    group_id: str
    partition: TopicPartition
    offset: int


class GroupTotals(msgspec.Struct, frozen=True):
    """Sums over the groups of one coordinator. `by_state` has Kafka's names of the states."""

    by_state: Mapping[str, int]
    offsets: int
    loads: LoadView
