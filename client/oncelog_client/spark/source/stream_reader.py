"""`spark.readStream.format("oncelog")`: what each micro-batch reads.

Lives in one Python process of the driver as long as the query runs; `read` alone runs on executors.
All that decides what a batch reads is in Spark's own log of offsets before it is read, so that a
batch that is repeated reads the same: the very first batch is empty and only fixes the start, and a
new partition is read from the batch after the one that found it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.values import TopicPartition

from . import logs
from .catalogue import METADATA_AGE_MS
from .offsets import carried_start, from_json, start_symbol, to_json, whole_stream
from .partition_reads import PartitionReads, input_partitions
from .places import resolve
from .planning import Logs, Positions, backlogs, next_end, questions, readable, settled
from .rate_limits import must_wait
from .splits import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from .catalogue import Catalogue
    from .offsets import Offsets
    from .source_options import SourceOptions

_log = logging.getLogger(__name__)

_NO_LIMIT: Final = (1 << 63) - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Every method raises OptionError, DataLossError, KafkaError or TimeoutError, each of which
    ends the query: what may go away is tried again before."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._reads = PartitionReads.of(options, columns)
        # As last seen; the target of `Trigger.AvailableNow`, which nothing goes beyond.
        self._ends: Offsets = {}
        self._target: Offsets | None = None
        self._topic_ids: dict[str, bytes] = {}
        self._triggered_ms: float | None = None
        self._planned: dict[str, Any] | None = None

    # -- where from

    def initialOffset(self) -> dict[str, Any]:
        return start_symbol(self._options.start)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = logs.ask(self._options, self._latest)

    # -- where to

    def getDefaultReadLimit(self) -> ReadLimit:
        # Asked for once whenever a query starts: what the user should know is said here.
        for remark in self._options.remarks:
            _log.warning("%s", remark)
        # Never ReadAllAvailable: so that it is known when Spark itself says it (`Trigger.Once`).
        return ReadMaxRows(self._options.max_offsets or _NO_LIMIT)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        position = from_json(start)
        self._planned = (
            self._first_end(limit) if position is None else self._next_end(position, limit)
        )
        return self._planned

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._ends) or None

    # -- what

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        starts, ends = from_json(start), from_json(end)
        if starts is None:
            starts = carried_start(end) or {}
        ranges = [
            OffsetRange(one, starts[one], last)
            for one, last in sorted((ends or {}).items())
            if one in starts and starts[one] < last
        ]
        if not ranges:
            return []
        # Of a batch that an earlier process has begun, or as it was when the query started.
        is_old = end != self._planned or self._target is not None
        kept, losses = logs.ask(self._options, lambda catalogue: _check(catalogue, ranges, is_old))
        logs.report(losses, fail=self._options.fail_on_data_loss)
        return input_partitions(kept, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reads.read(partition)

    # -- how far it got

    def commit(self, end: dict[str, Any]) -> None:
        """`commitOffsetsToGroup`: for tools that show lag; the query stands on its checkpoint."""
        group, offsets = self._options.commit_to_group, from_json(end)
        if group is None or not offsets:
            return
        try:
            logs.ask(self._options, lambda catalogue: catalogue.commit(group, offsets))
        except (KafkaError, TimeoutError) as error:
            _log.warning("commitOffsetsToGroup=%s: not committed: %s", group, error)

    # -- planning

    def _first_end(self, limit: ReadLimit) -> dict[str, Any]:
        options = self._options

        async def begin(catalogue: Catalogue) -> tuple[Offsets, Offsets]:
            ends = await logs.first_ends(catalogue, options)
            if self._target is not None:
                ends = {one: end for one, end in self._target.items() if one in ends}
            self._remember(catalogue, ends)
            return await resolve(catalogue, options.start, ends, options, starting=True), ends

        starts, ends = logs.ask(options, begin)
        if isinstance(limit, ReadAllAvailable):
            return whole_stream(
                starts, {start: max(ends[start], starts[start]) for start in starts}
            )
        return to_json(starts)

    def _next_end(self, position: Offsets, limit: ReadLimit) -> dict[str, Any]:
        found, ends = logs.ask(self._options, lambda catalogue: self._look(catalogue, position))
        logs.report(found.losses, fail=self._options.fail_on_data_loss)
        waiting = backlogs(position, found.offsets, ends)
        backlog = sum(waiting.values())
        if self._is_too_little(backlog, limit):
            return to_json(found.offsets)
        if backlog:
            self._triggered_ms = monotonic_ms()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(next_end(found.offsets, waiting, most))

    def _is_too_little(self, backlog: int, limit: ReadLimit) -> bool:
        if self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        waited_ms = None if self._triggered_ms is None else monotonic_ms() - self._triggered_ms
        options = self._options
        return must_wait(backlog, options.min_offsets, waited_ms, options.max_trigger_delay_ms)

    async def _look(self, catalogue: Catalogue, position: Offsets) -> tuple[Positions, Offsets]:
        """Where to read on, and how far there is. A loss is believed when it is seen for the last
        time of `fetchOffset.numRetries`: a broker that has just started may not know it all."""
        for attempt in range(self._options.fetch_retries):
            if attempt:
                await asyncio.sleep(self._options.fetch_retry_interval_ms / 1_000)
            seen = await self._logs(catalogue, position, METADATA_AGE_MS if not attempt else 0)
            found = settled(position, seen, self._ends)
            if not found.losses:
                break
        self._remember(catalogue, seen.ends)
        return found, seen.ends

    async def _logs(self, catalogue: Catalogue, position: Offsets, max_age_ms: float) -> Logs:
        options = self._options
        ends = self._target
        if ends is None:
            ends = await catalogue.ends(
                read_committed=options.read_committed, max_age_ms=max_age_ms
            )
            if ends != self._ends:
                # An answer has no id of the topic. If it is still the same now, it was so then.
                there = await catalogue.partitions()
                ends = {one: end for one, end in ends.items() if one in there}
        ids = catalogue.topic_ids()
        recreated = frozenset(
            topic for topic, old in self._topic_ids.items() if ids.get(topic, old) != old
        )
        asked = questions(position, Logs(ends, {}, {}, recreated))
        firsts = await catalogue.firsts(asked.firsts)
        ends = {one: end for one, end in ends.items() if one in firsts or one not in asked.firsts}
        high_watermarks: Offsets = {}
        if options.read_committed:
            high_watermarks = await catalogue.high_watermarks(asked.high_watermarks)
        return Logs(ends, firsts, high_watermarks, recreated)

    def _remember(self, catalogue: Catalogue, ends: Offsets) -> None:
        self._ends = ends
        ids = catalogue.topic_ids()
        self._topic_ids = {end.topic: ids[end.topic] for end in ends if end.topic in ids}

    async def _latest(self, catalogue: Catalogue) -> dict[TopicPartition, int]:
        ends = await catalogue.ends(read_committed=self._options.read_committed)
        self._remember(catalogue, ends)
        return ends


async def _check(
    catalogue: Catalogue, ranges: list[OffsetRange], is_old: bool
) -> tuple[list[OffsetRange], list[str]]:
    """Whether what was decided is there: see `readable`."""
    partitions = frozenset(one.partition for one in ranges)
    firsts, ends = await catalogue.firsts(partitions), None
    if is_old:
        ends = await catalogue.high_watermarks(partitions)
        firsts = {one: first for one, first in firsts.items() if one in ends}
    return readable(ranges, firsts, ends)
