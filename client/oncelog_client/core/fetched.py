"""Fetch responses that wait for the application. Batches are decoded one by one as it polls.

The module is pure: responses are added, and `take` returns records and moves the positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from oncelog_client.errors import KafkaError, RecordTooLargeError
from oncelog_client.values import ConsumerRecord, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import split_batches
from oncelog_protocol.records.errors import CorruptRecords, DecompressedTooLarge
from oncelog_protocol.records.record import Bytes, Record

from .isolation import AbortedRange, VisibleBatch, markers, visible_batches
from .subscription import Assigned, Subscription
from .uncommitted import Marker, UncommittedRecords


class FetchedPartition:
    """The records of one partition in one response, from `offset` up to `end_offset`
    (exclusive)."""

    __slots__ = (
        "_batch",
        "_batches",
        "_buffer",
        "_given",
        "_uncommitted",
        "end_epoch",
        "end_offset",
        "jumps",
        "partition",
        "size_bytes",
    )

    def __init__(
        self,
        partition: TopicPartition,
        jumps: int,
        offset: int,
        buffer: Bytes,
        aborted: Iterable[AbortedRange],
        *,
        read_committed: bool,
        check_crcs: bool,
        max_batch_bytes: int,
        uncommitted: UncommittedRecords | None = None,
    ) -> None:
        self.partition = partition
        self.jumps = jumps
        self.size_bytes = len(buffer)
        self.end_offset = offset
        # The leader epoch of the last batch: -1 if there is no batch, or the batch has no epoch.
        self.end_epoch = -1
        # `take` raises the error again, after it has returned the records before the corrupt batch.
        with suppress(CorruptRecords):
            for _, header in split_batches(buffer, allow_partial=True):
                self.end_offset = max(header.next_offset, offset)
                self.end_epoch = header.partition_leader_epoch
        self._batches: Iterator[VisibleBatch] = visible_batches(
            buffer,
            offset,
            read_committed=read_committed,
            aborted=aborted,
            max_batch_bytes=max_batch_bytes,
            check_crcs=check_crcs,
            read_markers=uncommitted is not None,
        )
        self._uncommitted = uncommitted
        self._buffer = b"" if uncommitted is None else buffer
        self._batch: VisibleBatch | None = None
        self._given = 0

    def take(self, state: Assigned, limit: int, records: list[ConsumerRecord]) -> bool:
        """Append at most `limit` records and move the position. Return False if nothing is left.

        Raises KafkaError (CORRUPT_MESSAGE) at a corrupt batch, and RecordTooLargeError at a batch
        that decompresses to more than its limit. The position is then before the batch with the
        error.
        """
        topic, partition = self.partition
        new = tuple.__new__
        while limit > 0:
            batch = self._batch
            if batch is None:
                try:
                    batch = next(self._batches, None)
                except DecompressedTooLarge as error:
                    raise RecordTooLargeError(
                        f"{self.partition} at offset {state.position}: a batch of this partition "
                        f"holds more than {error.limit} bytes when decompressed. If it is no "
                        "attack, raise fetch_max_decompressed_factor (or fetch_max_bytes); else "
                        "seek past the batch"
                    ) from error
                except CorruptRecords as error:
                    raise _corrupt(self.partition, state, error) from error
                if batch is None:
                    return False
                self._batch, self._given = batch, 0
            part = batch.records[self._given : self._given + limit]
            kind, epoch = batch.timestamp_type, batch.leader_epoch
            records += [
                new(
                    ConsumerRecord,
                    (topic, partition, offset, timestamp, key, value, headers, kind, epoch),
                )
                for offset, timestamp, key, value, headers in part
            ]
            if self._uncommitted is not None:
                self._count(self._uncommitted, batch, part)
            limit -= len(part)
            self._given += len(part)
            state.leader_epoch = epoch
            if self._given == len(batch.records):
                self._batch = None
                state.position = batch.next_offset
            else:
                state.position = part[-1].offset + 1
        return True

    def markers(self, offset: int) -> Iterator[Marker]:
        """Yield the markers from `offset` on, if uncommitted records are counted."""
        for producer_id, committed in markers(self._buffer, offset):
            yield Marker(self.partition, producer_id, committed)

    def _count(
        self, uncommitted: UncommittedRecords, batch: VisibleBatch, part: list[Record]
    ) -> None:
        if batch.committed is not None:
            uncommitted.end(self.partition, batch.producer_id, committed=batch.committed)
        elif batch.producer_id >= 0:
            uncommitted.give(self.partition, batch.producer_id, part)


def _corrupt(partition: TopicPartition, state: Assigned, error: CorruptRecords) -> KafkaError:
    return KafkaError(f"{partition} at {state.position}: {error}", ErrorCode.CORRUPT_MESSAGE)


class _Broken(NamedTuple):
    """A corrupt batch at a position. `jumps`: how often the position had jumped (`Assigned.jump`)
    when the batch was found."""

    state: Assigned
    jumps: int
    error: KafkaError


class FetchedRecords:
    """The records that were fetched ahead of the application, in order of arrival."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._parts: deque[FetchedPartition] = deque()
        self._broken: _Broken | None = None

    def add(self, part: FetchedPartition) -> None:
        """Add a response. The response is dropped if the partition was removed, or its position has
        jumped (`Assigned.jump`) since the request."""
        state = self._subscription.get(part.partition)
        if state is not None and state.jumps == part.jumps:
            self._parts.append(part)

    def next_fetch(self, state: Assigned) -> tuple[int, int] | None:
        """Return the next offset to fetch of a partition, and the leader epoch of the record before
        this offset (-1 for unknown). Return None for a partition without a position."""
        if state.position is None:
            return None
        found = state.position, state.leader_epoch
        for part in self._parts:
            if part.partition == state.partition and part.jumps == state.jumps:
                found = part.end_offset, part.end_epoch
        return found

    def count(self, state: Assigned) -> int:
        """Return the number of the partition's responses that wait for the application."""
        return sum(
            part.partition == state.partition and part.jumps == state.jumps for part in self._parts
        )

    def readable_bytes(self) -> int:
        """Return the size in bytes of the records that can be returned now, without paused
        partitions."""
        found = 0
        for part in self._parts:
            state = self._subscription.get(part.partition)
            if state is not None and state.jumps == part.jumps and state.fetchable:
                found += part.size_bytes
        return found

    def markers(self) -> Iterator[Marker]:
        """Yield the markers behind the positions, if uncommitted records are counted."""
        for part in self._parts:
            state = self._subscription.get(part.partition)
            if state is not None and state.jumps == part.jumps and state.position is not None:
                yield from part.markers(state.position)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return at most `limit` records, none of paused partitions, and move the positions past
        the records. At a corrupt batch one call returns the records before the batch, and the next
        call raises KafkaError (CORRUPT_MESSAGE). No later record of the partition is returned until
        the application moves the position past the batch.
        """
        self._raise_broken()
        records: list[ConsumerRecord] = []
        held: list[FetchedPartition] = []
        try:
            while self._parts and len(records) < limit:
                part = self._parts[0]
                state = self._subscription.get(part.partition)
                if state is None or state.jumps != part.jumps:
                    self._parts.popleft()
                elif not state.fetchable:
                    held.append(self._parts.popleft())
                else:
                    try:
                        more = part.take(state, limit - len(records), records)
                    except KafkaError as error:
                        self._parts.popleft()
                        # After the jump, later records that are buffered or in flight are dropped.
                        # They would leave a gap.
                        state.jump(state.position, state.leader_epoch)
                        if not records:
                            raise
                        self._broken = _Broken(state, state.jumps, error)
                        break
                    if not more:
                        self._parts.popleft()
        finally:
            self._parts.extendleft(reversed(held))
        return records

    def _raise_broken(self) -> None:
        """Raise the error of the last `take`, unless the partition was removed or its position was
        moved since."""
        found = self._broken
        if found is None:
            return
        state = self._subscription.get(found.state.partition)
        if state is not found.state or state.jumps != found.jumps:
            self._broken = None
        elif state.fetchable:
            self._broken = None
            raise found.error
