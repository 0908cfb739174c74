"""A reader that records which committed rows are visible at each moment.

A moment is one ListOffsets request for all partitions. Its last stable offsets come from one turn
of the broker's event loop. Every row below them is decided, so a reader sees exactly the committed
rows.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from oncelog_client import Consumer, ConsumerRecord, TopicPartition
from tests.spark.audit import Sighting

# Time to wait for more records before the next snapshot.
POLL_MS: Final = 50
# Time for a killed broker to return and for the reader to catch up.
CATCH_UP_TIMEOUT_S: Final = 40.0


class Watcher:
    """A reader of `topics` that runs from `start` to `stop`, across restarts of the broker."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.snapshots: list[list[Sighting]] = []
        self._bootstrap = bootstrap
        self._topics = topics
        self._waiting: dict[TopicPartition, deque[ConsumerRecord]] = {}
        self._last = threading.Event()
        self._looked = threading.Condition()
        self._looks_begun = self._looks_done = 0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="watcher")

    def start(self) -> None:
        """Start, and return after the first snapshot."""
        self._thread.start()
        self.caught_up()

    def caught_up(self) -> list[list[Sighting]]:
        """Wait for a snapshot that begins after this call, and return all snapshots. They contain
        every row that was committed before the call. Raises the exception that ended the reader."""
        with self._looked:
            wanted = self._looks_begun + 1
            self._looked.wait_for(
                lambda: self._looks_done >= wanted or self._failure is not None, CATCH_UP_TIMEOUT_S
            )
            self._check()
            assert self._looks_done >= wanted, "the watcher is stuck"
            return [*self.snapshots]

    def stop(self) -> None:
        """End the reader and wait for its thread."""
        self._last.set()
        self._thread.join(CATCH_UP_TIMEOUT_S + 5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except BaseException as failure:
            with self._looked:
                self._failure = failure
                self._looked.notify_all()

    async def _watch(self) -> None:
        reader = Consumer(self._bootstrap, isolation_level="read_committed")
        async with reader:
            partitions = [
                TopicPartition(topic, row.partition)
                for topic in self._topics
                for row in await reader.partitions_for(topic)
            ]
            self._waiting = {tp: deque() for tp in partitions}
            await reader.assign(partitions)
            await reader.seek_to_beginning()
            while not self._last.is_set():
                await self._look(reader, partitions)
                self._keep(await reader.poll(POLL_MS))

    async def _look(self, reader: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Take one snapshot: read everything below the last stable offsets of one moment. Keep only
        the first snapshot and those with new rows."""
        with self._looked:
            self._looks_begun += 1
        async with asyncio.timeout(CATCH_UP_TIMEOUT_S):
            ends = await reader.end_offsets(partitions)
            while any([await reader.position(tp) < end for tp, end in ends.items()]):
                self._keep(await reader.poll(POLL_MS))
        rows = [*self._below(ends)]
        if rows or not self.snapshots:
            self.snapshots.append(rows)
        with self._looked:
            self._looks_done += 1
            self._looked.notify_all()

    def _keep(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            self._waiting[record.topic_partition].append(record)

    def _below(self, ends: Mapping[TopicPartition, int]) -> Iterable[Sighting]:
        for tp, end in ends.items():
            waiting = self._waiting[tp]
            while waiting and waiting[0].offset < end:
                record = waiting.popleft()
                yield Sighting(tp.topic, (record.key or b"").decode())
