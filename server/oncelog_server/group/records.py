"""The records of `__consumer_offsets` as this shard writes and reads them.

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.member import Member
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.offsets import CommittedOffset

# Strings of records have int16 lengths; member ids are made of names and a suffix.
LONGEST_NAME_BYTES: Final = 32_000

_VERSION_WITH_EXPIRE_TIMESTAMP: Final = 1


def fits_record(name: str) -> bool:
    """Whether a name from a request (whose strings may be longer) can be written."""
    return len(name.encode()) <= LONGEST_NAME_BYTES


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group as it is, with these assignments by member id."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
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
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(_group_key(group.group_id), encode_group_metadata_value(value))


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """A group that has had no member yet: generation 0, no protocol."""
    value = GroupMetadataValue(
        protocol=None, leader=None, current_state_timestamp=group.current_state_timestamp_ms
    )
    return CoordinatorRecord(_group_key(group.group_id), encode_group_metadata_value(value))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The group is gone."""
    return CoordinatorRecord(_group_key(group_id), None)


def offset_record(
    group_id: str, topic: str, partition: int, committed: CommittedOffset
) -> CoordinatorRecord:
    """A committed offset; version 1 where it has an expiry of its own (OffsetCommit v2 to v4)."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
    )
    key = encode_offset_commit_key(OffsetCommitKey(group_id, topic, partition))
    if committed.expire_timestamp_ms is None:
        return CoordinatorRecord(key, encode_offset_commit_value(value))
    value.expire_timestamp = committed.expire_timestamp_ms
    value.leader_epoch = -1
    return CoordinatorRecord(key, encode_offset_commit_value(value, _VERSION_WITH_EXPIRE_TIMESTAMP))


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The offset is gone, and what is pending for the partition."""
    key = OffsetCommitKey(group_id, topic, partition)
    return CoordinatorRecord(encode_offset_commit_key(key), None)


def committed_offset(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
    """What a record at `record_offset` of __consumer_offsets says."""
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == -1 else value.expire_timestamp,
        record_offset=record_offset,
    )


def loaded_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group a record tells of: stable, or empty."""
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


def _group_key(group_id: str) -> bytes:
    return encode_group_metadata_key(GroupMetadataKey(group_id))
