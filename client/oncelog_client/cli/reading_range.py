"""`consume -o -e -p`: start and end of reading in each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from oncelog_client.cli.failures import Failed
from oncelog_client.cli.late_partitions import LatePartitions, leaderless, note_leaderless
from oncelog_client.cli.offset_ranges import END, START, Range, parse_range, resolve
from oncelog_client.cli.partitions import parse_partitions
from oncelog_client.consumer import Consumer
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import ConsumerRecord, OffsetAndTimestamp, TopicPartition


class Bounds:
    """The end offset (exclusive) of each partition that is read."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._left = dict(ends)
        self.ends = dict(ends)

    def within(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records before the end of their partition."""
        ends = self.ends
        return [record for record in records if record.offset < ends[record.topic_partition]]

    async def reached(self, consumer: Consumer) -> bool:
        """Return True if every partition was read to its end. Pause each partition that has been
        read to its end."""
        for partition, end in list(self._left.items()):
            if await consumer.position(partition) >= end:
                consumer.pause(partition)
                del self._left[partition]
        return not self._left


class Selection:
    """The flags `-o`, `-e`, `-p` and --from-beginning, which select the records of one topic."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        """Read the flags. Raises click.UsageError for flags that contradict each other."""
        self._numbers = parse_partitions(flags["partitions"])
        text = flags["range"]
        self._range = None if text is None else parse_range(text, wall_ms())
        self._to_the_end = flags["exit_at_end"]
        self._from_beginning = flags["from_beginning"]
        for name, given in (("-o", text), ("-p", flags["partitions"]), ("-e", self._to_the_end)):
            self._check(name, given not in (None, False), flags)

    @staticmethod
    def _check(name: str, is_given: bool, flags: Mapping[str, Any]) -> None:
        if not is_given:
            return
        for other in ("group", "include", "partition", "offset"):
            if flags[other] is not None:
                raise click.UsageError(f"{name} excludes --{other}")
        if name == "-o" and flags["from_beginning"]:
            raise click.UsageError("-o excludes --from-beginning")

    @property
    def is_given(self) -> bool:
        """Return True if `-o`, `-e` or `-p` is given."""
        return self._range is not None or self._numbers is not None or self._to_the_end

    async def point(
        self, consumer: Consumer, partitions: Iterable[TopicPartition]
    ) -> Bounds | LatePartitions:
        """Assign the partitions that `-p` selects, by default all. Move to the start of reading.
        Return the ends, or, if reading has no end, the partitions that have no leader yet.

        If `-o` is not given, `-e` or --from-beginning starts at the first record. If none of these
        flags is given, reading starts at the present end. Raises Failed for a partition that does
        not exist, and RetriableError for a partition without a leader if reading has an end, or if
        no partition has a leader.
        """
        chosen = self._chosen(list(partitions))
        await consumer.assign(chosen)
        first, last = self._of()

        async def lookup(
            specs: Mapping[TopicPartition, Any],
        ) -> Mapping[TopicPartition, OffsetAndTimestamp]:
            return await _looked_up(consumer, specs)

        async def start(wanted: Sequence[TopicPartition]) -> None:
            for partition, offset in (await resolve(lookup, wanted, first)).items():
                consumer.seek(partition, offset)

        if last is not None:
            await start(chosen)
            return Bounds(await resolve(lookup, chosen, last))
        rows = await leaderless(consumer, chosen)
        waiting = [TopicPartition(row.topic, row.partition) for row in rows]
        if len(waiting) < len(chosen):
            note_leaderless(rows)
            chosen = [partition for partition in chosen if partition not in waiting]
        else:
            waiting = []
        for partition in waiting:
            consumer.pause(partition)
        await start(chosen)
        return LatePartitions(waiting, start)

    def _of(self) -> Range:
        found = self._range
        if found is None:
            found = Range(START if self._from_beginning or self._to_the_end else END)
        return found._replace(last=END) if found.last is None and self._to_the_end else found

    def _chosen(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        if self._numbers is None:
            return partitions
        missing = sorted(self._numbers - {partition.partition for partition in partitions})
        if missing:
            topic, count = partitions[0].topic, len(partitions)
            raise Failed(f"{topic} has no partition {missing[0]}: it has {count}, counted from 0")
        return [partition for partition in partitions if partition.partition in self._numbers]


async def _looked_up(
    consumer: Consumer, specs: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return offsets as Admin.list_offsets does. The consumer looks them up, because the end of a
    partition depends on the consumer's isolation level."""
    earliest = [place for place, spec in specs.items() if spec == "earliest"]
    latest = [place for place, spec in specs.items() if spec == "latest"]
    timed = {place: spec for place, spec in specs.items() if isinstance(spec, int)}
    offsets: dict[TopicPartition, int] = {}
    if earliest:
        offsets |= await consumer.beginning_offsets(earliest)
    if latest:
        offsets |= await consumer.end_offsets(latest)
    found = {place: OffsetAndTimestamp(offset, -1) for place, offset in offsets.items()}
    if timed:
        responses = await consumer.offsets_for_times(timed)
        found |= {place: response for place, response in responses.items() if response is not None}
    return found
