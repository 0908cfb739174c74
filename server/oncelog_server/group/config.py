"""The settings of a group shard: those of Kafka with its names and defaults, and limits that Kafka
does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from oncelog_server.settings.coordinators import CoordinatorSettings


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a shard. The object is immutable, so a change of settings gives the shard
    another GroupConfig."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    # offset.metadata.max.bytes limits the number of characters, as in Kafka.
    offset_metadata_max_bytes: int = 4_096
    # offsets.retention.minutes is 10080.
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    offsets_retention_check_interval_ms: int = 600_000

    # A new member sends no heartbeats before its first response. The member is removed if it does
    # not get this response within this time, as in Kafka.
    new_member_join_timeout_ms: int = 300_000

    # Not in Kafka: maximum memory of one member and of one group, and maximum number of assigned
    # member ids that have not joined yet.
    member_metadata_max_bytes: int = 1 << 20
    group_metadata_max_bytes: int = 32 << 20
    pending_members_max: int = 10_000
    # Not in Kafka: maximum work in one slice of the deletion of expired offsets.
    cleanup_records_max: int = 500
    cleanup_groups_max: int = 1_000
    # Not in Kafka: maximum size of the records of a slice, unless it has a single record. Group ids
    # may have 32,000 bytes, and a log accepts a batch of up to max.message.bytes.
    cleanup_bytes_max: int = 16 << 10

    @classmethod
    def of(cls, settings: CoordinatorSettings) -> Self:
        """Return the settings of a shard for those of a broker."""
        return cls(
            group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
            group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            group_max_size=settings.group_max_size,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        )
