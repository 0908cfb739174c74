"""Partitions of `consume` without a leader. The command reads the other partitions, and reads these
as soon as a broker leads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from oncelog_client.cli.output import note
from oncelog_client.consumer import Consumer
from oncelog_client.errors import RetriableError
from oncelog_client.values import PartitionInfo, TopicPartition


class LatePartitions:
    """Partitions without a leader when reading begins. They are paused until they have a leader.
    `start` moves the consumer to the start of reading in the given partitions."""

    def __init__(
        self,
        waiting: Iterable[TopicPartition],
        start: Callable[[Sequence[TopicPartition]], Awaitable[None]],
    ) -> None:
        self._waiting = list(waiting)
        self._start = start

    async def begin(self, consumer: Consumer) -> None:
        """Begin to read the partitions that have a leader now. If a leader is lost meanwhile, the
        next call tries again. Raises the errors of `start` that no retry resolves."""
        if not self._waiting:
            return
        rows = await leaderless(consumer, self._waiting)
        unled = {TopicPartition(row.topic, row.partition) for row in rows}
        led = [partition for partition in self._waiting if partition not in unled]
        if not led:
            return
        with suppress(RetriableError):
            await self._start(led)
            consumer.resume(*led)
            self._waiting = [partition for partition in self._waiting if partition in unled]


async def leaderless(
    consumer: Consumer, partitions: Iterable[TopicPartition]
) -> list[PartitionInfo]:
    """Return those of the `partitions` that have no leader in the consumer's metadata."""
    chosen = frozenset(partitions)
    return [
        row
        for topic in sorted({partition.topic for partition in chosen})
        for row in await consumer.partitions_for(topic)
        if row.leader is None and TopicPartition(topic, row.partition) in chosen
    ]


def note_leaderless(rows: Iterable[PartitionInfo]) -> None:
    """Print a note for each partition without a leader."""
    for row in rows:
        place = TopicPartition(row.topic, row.partition)
        note(f"{place}: {row.reason_without_leader}. It is read as soon as a broker leads it")
