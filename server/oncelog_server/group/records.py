"""The records of offsets in `__consumer_offsets`, and the keys and tombstones of groups.

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_metadata_key,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.group.offsets import CommittedOffset

# Strings in records have int16 lengths (up to 32,767). A member id is a name with a suffix, and the
# rest is for this suffix.
LONGEST_NAME_BYTES: Final = 32_000

_VERSION_WITH_EXPIRE_TIMESTAMP: Final = 1


def fits_record(name: str) -> bool:
    """Return True if a name fits into a record. The strings of a request may be longer."""
    return len(name.encode()) <= LONGEST_NAME_BYTES


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a group."""
    return CoordinatorRecord(group_key(group_id), None)


def offset_record(
    group_id: str, topic: str, partition: int, committed: CommittedOffset
) -> CoordinatorRecord:
    """Return the record of a committed offset. The record has version 1 if the request set the
    offset's expiry (OffsetCommit v2 to v4)."""
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
    """Return the tombstone of an offset, which also deletes pending offsets of the partition."""
    key = OffsetCommitKey(group_id, topic, partition)
    return CoordinatorRecord(encode_offset_commit_key(key), None)


def committed_offset(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
    """Return the committed offset in a record. `record_offset` is the offset of the record in
    __consumer_offsets."""
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == -1 else value.expire_timestamp,
        record_offset=record_offset,
    )


def group_key(group_id: str) -> bytes:
    """Return the key of the group's own records."""
    return encode_group_metadata_key(GroupMetadataKey(group_id))
