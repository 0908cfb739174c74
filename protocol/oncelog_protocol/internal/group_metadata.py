"""The records of `__consumer_offsets` for classic groups: committed offsets, and the groups.

Source: Kafka's OffsetCommitKey/Value and GroupMetadataKey/Value.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import Buffer, array, bytestring, int32, int64, string, uuid

from .versions import UnknownRecordVersion, decode_body, encode_versioned, read_version

# The types of a key. Brokers before 0.8.3 wrote 0 in place of 1.
LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2

OFFSET_COMMIT_VALUE_VERSIONS: Final = range(0, 5)
GROUP_METADATA_VALUE_VERSIONS: Final = range(0, 5)

# Kafka 4.3 writes this version unless a newer group version is finalized.
OFFSET_COMMIT_VALUE_VERSION: Final = 3
GROUP_METADATA_VALUE_VERSION: Final = 3


@message(range(0, 1))
class OffsetCommitKey:
    """The key of an offset."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(OFFSET_COMMIT_VALUE_VERSIONS, flexible_since=4)
class OffsetCommitValue:
    """A committed offset. Timestamps are in ms since 1970. An `expire_timestamp` of -1 means
    none."""

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1)
    topic_id: bytes = uuid(since=4, tag=0)


@message(range(0, 1))
class GroupMetadataKey:
    """The key of a group."""

    group: str = string()


@struct
class MemberMetadata:
    """A member of a group. `subscription` and `assignment` are the protocol's own bytes."""

    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1)
    session_timeout: int = int32()
    subscription: bytes = bytestring()
    assignment: bytes = bytestring()


@message(GROUP_METADATA_VALUE_VERSIONS, flexible_since=4)
class GroupMetadataValue:
    """A group after a rebalance, or a group without members. Timeouts are in ms."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable_since=0)
    leader: str | None = string(nullable_since=0)
    current_state_timestamp: int = int64(since=2, default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


def encode_offset_commit_key(key: OffsetCommitKey) -> bytes:
    """Return the key of a committed offset."""
    return encode_versioned(key, 0, OFFSET_COMMIT)


def encode_group_metadata_key(key: GroupMetadataKey) -> bytes:
    """Return the key of a group."""
    return encode_versioned(key, 0, GROUP_METADATA)


def decode_key(data: Buffer) -> OffsetCommitKey | GroupMetadataKey:
    """Return the decoded key of an offset or of a group. The type of the key decides how to read
    the value.

    Raises UnknownRecordVersion for a record of another type, ProtocolError for a damaged key.
    """
    kind = read_version("key", data)
    if kind in (OFFSET_COMMIT, LEGACY_OFFSET_COMMIT):
        return decode_body(OffsetCommitKey, 0, data)
    if kind == GROUP_METADATA:
        return decode_body(GroupMetadataKey, 0, data)
    raise UnknownRecordVersion("group coordinator key", kind)


def encode_offset_commit_value(
    value: OffsetCommitValue, version: int = OFFSET_COMMIT_VALUE_VERSION
) -> bytes:
    """Return the value of a committed offset. Only version 1 has an expire timestamp."""
    return encode_versioned(value, version)


def decode_offset_commit_value(data: Buffer) -> OffsetCommitValue:
    """Return the decoded value. Raises UnknownRecordVersion for a newer version, ProtocolError for
    a damaged value."""
    version = read_version("OffsetCommitValue", data)
    if version not in OFFSET_COMMIT_VALUE_VERSIONS:
        raise UnknownRecordVersion("offset commit value", version)
    return decode_body(OffsetCommitValue, version, data)


def encode_group_metadata_value(
    value: GroupMetadataValue, version: int = GROUP_METADATA_VALUE_VERSION
) -> bytes:
    """Return the value of a group."""
    return encode_versioned(value, version)


def decode_group_metadata_value(data: Buffer) -> GroupMetadataValue:
    """Return the decoded value. Raises UnknownRecordVersion for a newer version, ProtocolError for
    a damaged value."""
    version = read_version("GroupMetadataValue", data)
    if version not in GROUP_METADATA_VALUE_VERSIONS:
        raise UnknownRecordVersion("group metadata value", version)
    return decode_body(GroupMetadataValue, version, data)
