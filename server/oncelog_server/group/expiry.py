"""Deletes offsets that are expired, or that belong to deleted topics. The work runs in bounded
slices.

Source: Kafka's cleanupGroupMetadata (KIP-211). An offset in an undecided transaction never expires,
and the group of such an offset stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from typing import Final

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topic_names import SINKS
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.group.effects import SliceSwept
from oncelog_server.group.group import Group
from oncelog_server.group.moment import Moment
from oncelog_server.group.offsets import CommittedOffset, Place
from oncelog_server.group.records import group_tombstone, offset_tombstone
from oncelog_server.group.sweep_limits import SweepLimits
from oncelog_server.group.table import GroupTable

_SWEEP_KEY = ("sweep",)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class _Batch:
    """The tombstones of one append, up to a number of records and bytes. A single record may have
    more bytes."""

    __slots__ = ("_bytes_left", "_records_left", "records")

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_left, self._bytes_left = records_max, bytes_max
        self.records: list[CoordinatorRecord] = []

    def takes(self, record: CoordinatorRecord) -> bool:
        """Add the record. Return False if the batch is full."""
        size = len(record.key) + len(record.value or b"")
        if self.records and (not self._records_left or size > self._bytes_left):
            return False
        self.records.append(record)
        self._records_left -= 1
        self._bytes_left -= size
        return True


class Expiry:
    """Sweeps all groups every offsets.retention.check.interval.ms. Its timer starts each slice."""

    __slots__ = ("_groups_left", "_limits", "_table")

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        # The groups that the current sweep has not visited yet. The next group is the last in the
        # list.
        self._groups_left: list[str] = []
        self._limits = SweepLimits(table.config.cleanup_bytes_max)

    def schedule(self, at: Moment) -> None:
        """Schedule the next sweep one interval from now."""
        interval_ms = self._table.config.offsets_retention_check_interval_ms
        self._table.timers.set(_SWEEP_KEY, at.now_ms + max(interval_ms, 1), self._begin)

    def _begin(self, at: Moment) -> Decision[None]:
        return self._slice(at, SweepLimits(self._table.config.cleanup_bytes_max))

    def _continue(self, at: Moment) -> Decision[None]:
        return self._slice(at, self._limits)

    def _slice(self, at: Moment, limits: SweepLimits) -> Decision[None]:
        config = self._table.config
        # A sweep begins with all groups.
        left = reversed(self._groups_left) if self._groups_left else iter(self._table.groups)
        batch = _Batch(config.cleanup_records_max, limits.bytes_max)
        group_count, first_group_id = 0, ""
        for group_id in islice(left, config.cleanup_groups_max):
            group = self._table.groups.get(group_id)
            if group is not None and group_id not in limits.left_out:
                takes_all = all(map(batch.takes, self._tombstones(group, at)))
                if batch.records and not first_group_id:
                    first_group_id = group_id
                if not takes_all:
                    # The next slice begins with this group.
                    break
            group_count += 1
        records = tuple(batch.records)
        swept = SliceSwept(group_count, at, len(records), first_group_id, limits)
        return Decision(None, records, effects=(swept,))

    def slice_swept(self, effect: SliceSwept) -> None:
        """Schedule the next slice. After the last slice, schedule the next sweep."""
        self._limits = effect.limits
        if not self._groups_left:
            self._groups_left = list(reversed(self._table.groups))
        del self._groups_left[len(self._groups_left) - effect.group_count :]
        if self._groups_left:
            self._table.timers.set(_SWEEP_KEY, effect.at.now_ms + 1, self._continue)
        else:
            self.schedule(effect.at)

    def failed(self, effect: SliceSwept, code: int) -> None:
        """Continue after the append of a slice has failed.

        If its records are too large for the log, the sweep begins again with smaller slices. A
        group with a single tombstone that is too large is left out, and later groups are swept.
        After any other error the next sweep decides again, because the log accepts no records now.
        """
        self._groups_left.clear()
        if code not in _TOO_LARGE:
            self.schedule(effect.at)
            return
        limits = effect.limits
        if effect.record_count > 1:
            self._limits = replace(limits, bytes_max=limits.bytes_max // 2)
        else:
            self._limits = replace(limits, left_out=limits.left_out | {effect.first_group_id})
        self._table.timers.set(_SWEEP_KEY, effect.at.now_ms + 1, self._continue)

    def _tombstones(self, group: Group, at: Moment) -> Iterator[CoordinatorRecord]:
        """Yield a tombstone for each expired offset of the group, and for the group if it is unused
        then."""
        group_id, offsets = group.group_id, self._table.offsets
        offsets_left = sum(map(len, offsets.of_group(group_id).values()))
        for place in self._expired(group, at):
            yield offset_tombstone(group_id, *place)
            offsets_left -= 1
        if group.is_unused and not offsets_left and not offsets.is_group_in_transaction(group_id):
            yield group_tombstone(group_id)

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
        config = self._table.config
        batches = [_Batch(config.cleanup_records_max, config.cleanup_bytes_max)]
        for record in records:
            if not batches[-1].takes(record):
                batches.append(_Batch(config.cleanup_records_max, config.cleanup_bytes_max))
                batches[-1].takes(record)
        return [Decision(None, tuple(batch.records)) for batch in batches if batch.records]
