"""The records of classic groups in `__consumer_offsets`.

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
    encode_group_metadata_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.member import Member
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.records import group_key


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Return the group's record, with these assignments by member id."""
    return _record(group, group.leader_id, group.members.values(), assignments)


def replaced_member_record(group: ClassicGroup, old: Member, new: Member) -> CoordinatorRecord:
    """Return the group's record with `new` in place of `old`, each member with its assignment."""
    leader_id = new.member_id if group.leader_id == old.member_id else group.leader_id
    members = group.members_after(old, new)
    assignments = {member.member_id: member.assignment for member in members}
    return _record(group, leader_id, members, assignments)


def _record(
    group: ClassicGroup,
    leader_id: str | None,
    members: Iterable[Member],
    assignments: Mapping[str, bytes],
) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=leader_id,
        current_state_timestamp=group.current_state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in members
        ],
    )
    return CoordinatorRecord(group_key(group.group_id), encode_group_metadata_value(value))


def emptied_group_record(group: ClassicGroup, wall_ms: int) -> CoordinatorRecord:
    """Return the record of a group that has lost its last member. The record has the next
    generation, without members."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id + 1,
        protocol=None,
        leader=None,
        current_state_timestamp=wall_ms,
    )
    return CoordinatorRecord(group_key(group.group_id), encode_group_metadata_value(value))


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Return the record of a new group without members. The record has generation 0 and no
    protocol."""
    value = GroupMetadataValue(
        protocol=None, leader=None, current_state_timestamp=group.current_state_timestamp_ms
    )
    return CoordinatorRecord(group_key(group.group_id), encode_group_metadata_value(value))


def loaded_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group that a record describes. The group is either stable or empty."""
    group = ClassicGroup(group_id, current_state_timestamp_ms=value.current_state_timestamp)
    for loaded in value.members:
        group.add(_loaded_member(loaded, value))
    group.generation_id = value.generation
    if value.generation > 0 and value.current_state_timestamp >= 0:
        group.history.generation_began(value.generation, value.current_state_timestamp)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    if group.members:
        group.state = GroupState.STABLE
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members))
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def _loaded_member(loaded: MemberMetadata, value: GroupMetadataValue) -> Member:
    rebalance_ms = loaded.rebalance_timeout
    return Member(
        member_id=loaded.member_id,
        group_instance_id=loaded.group_instance_id,
        client_id=loaded.client_id,
        client_host=loaded.client_host,
        rebalance_timeout_ms=loaded.session_timeout if rebalance_ms == -1 else rebalance_ms,
        session_timeout_ms=loaded.session_timeout,
        protocol_type=value.protocol_type,
        protocols=((value.protocol or "", loaded.subscription),),
        assignment=loaded.assignment,
    )
