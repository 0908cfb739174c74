"""Deletes offsets that are expired, or that belong to deleted topics. The work runs in bounded
slices.

Source: Kafka's cleanupGroupMetadata (KIP-211). An offset in an undecided transaction never expires,
and the group of such an offset stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice

from oncelog_server.cluster.topic_names import SINKS
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.group.effects import SliceSwept
from oncelog_server.group.group import Group
from oncelog_server.group.moment import Moment
from oncelog_server.group.offsets import CommittedOffset, Place
from oncelog_server.group.records import group_tombstone, offset_tombstone
from oncelog_server.group.table import GroupTable

_SWEEP_KEY = ("sweep",)


class Expiry:
    """Sweeps all groups every offsets.retention.check.interval.ms. Its timer starts each slice."""

    __slots__ = ("_groups_left", "_table")

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        # The groups that the current sweep has not visited yet. The next group is the last in the
        # list.
        self._groups_left: list[str] = []

    def schedule(self, at: Moment) -> None:
        """Schedule the next sweep one interval from now."""
        interval_ms = self._table.config.offsets_retention_check_interval_ms
        self._table.timers.set(_SWEEP_KEY, at.now_ms + max(interval_ms, 1), self._sweep)

    def _sweep(self, at: Moment) -> Decision[None]:
        config = self._table.config
        # A sweep begins with all groups.
        left = reversed(self._groups_left) if self._groups_left else iter(self._table.groups)
        records: list[CoordinatorRecord] = []
        group_count = 0
        for group_id in islice(left, config.cleanup_groups_max):
            group = self._table.groups.get(group_id)
            if group is not None:
                limit = config.cleanup_records_max - len(records)
                records += self._expired_records(group, at, limit)
                if len(records) >= config.cleanup_records_max:
                    # The group may have more expired offsets, so the next slice begins with this
                    # group.
                    break
            group_count += 1
        return Decision(None, tuple(records), effects=(SliceSwept(group_count, at),))

    def slice_swept(self, effect: SliceSwept) -> None:
        """Schedule the next slice. After the last slice, schedule the next sweep."""
        if not self._groups_left:
            self._groups_left = list(reversed(self._table.groups))
        del self._groups_left[len(self._groups_left) - effect.group_count :]
        if self._groups_left:
            self._table.timers.set(_SWEEP_KEY, effect.at.now_ms + 1, self._sweep)
        else:
            self.schedule(effect.at)

    def postpone(self, effect: SliceSwept) -> None:
        """Leave the work to the next sweep, because the log accepts no records now."""
        self._groups_left.clear()
        self.schedule(effect.at)

    def _expired_records(self, group: Group, at: Moment, limit: int) -> list[CoordinatorRecord]:
        group_id = group.group_id
        expired = list(islice(self._expired(group, at), limit))
        records = [offset_tombstone(group_id, *key) for key in expired]
        offsets_left = sum(map(len, self._table.offsets.of_group(group_id).values())) - len(expired)
        if (
            group.is_unused
            and not offsets_left
            and not self._table.offsets.is_group_in_transaction(group_id)
        ):
            records.append(group_tombstone(group_id))
        return records

    def _expired(self, group: Group, at: Moment) -> Iterator[Place]:
        offsets = self._table.offsets
        for topic, partitions in offsets.of_group(group.group_id).items():
            # The offsets of an exactly-once sink never expire, because a sink may be idle for
            # longer than any retention. Kafka has no such exception.
            if topic == SINKS or group.is_subscribed_to(topic):
                continue
            for partition, committed in partitions.items():
                expires_ms = self._expires_ms(group, committed)
                if (
                    expires_ms is not None
                    and expires_ms <= at.wall_ms
                    and not offsets.has_pending(group.group_id, topic, partition)
                ):
                    yield topic, partition

    def _expires_ms(self, group: Group, committed: CommittedOffset) -> int | None:
        """Return the wall-clock time (ms) at which an offset expires, if the group is not
        subscribed to its topic. Return None if no offset expires in the present state of the
        group."""
        since_ms = group.retention_begins_ms(committed.commit_timestamp_ms)
        if since_ms is None:
            return None
        if committed.expire_timestamp_ms is not None:
            return committed.expire_timestamp_ms
        return since_ms + self._table.config.offsets_retention_ms

    # --- deleted topics

    def on_topics_deleted(self, topics: Set[str]) -> list[Decision[None]]:
        """Return tombstones for all offsets of these topics, in batches. Committed and pending
        offsets both count."""
        offsets = self._table.offsets
        records = [
            offset_tombstone(group_id, *key)
            for group_id in offsets.groups()
            for key in dict.fromkeys(
                (
                    *(
                        (topic, partition)
                        for topic in sorted(offsets.of_group(group_id).keys() & topics)
                        for partition in offsets.of_group(group_id)[topic]
                    ),
                    *(key for key in offsets.pending_of_group(group_id) if key[0] in topics),
                )
            )
        ]
        size = self._table.config.cleanup_records_max
        return [
            Decision(None, tuple(records[start : start + size]))
            for start in range(0, len(records), size)
        ]
