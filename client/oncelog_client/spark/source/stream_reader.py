"""`spark.readStream.format("oncelog")`: the ranges of offsets of each micro-batch.

The reader lives in one Python process of the driver while the query runs. Only `read` runs on
executors. The range of a batch is in Spark's own log of offsets before the batch is read, so that a
repeated batch reads the same range. The first batch is empty: it only puts the start of the query
into this log, so that a restart begins at the same offsets (except with `Trigger.Once`, which has
only one batch). If a batch finds a new partition, the next batch is the first that reads this
partition.
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
from oncelog_client.spark.offsets.offsets import (
    AtSink,
    carried_start,
    from_json,
    start_symbol,
    to_json,
    whole_stream,
    with_sink_end,
)
from oncelog_client.spark.source.plan.planning import (
    Logs,
    SettledOffsets,
    backlogs,
    next_end,
    questions,
    readable,
    settled,
)
from oncelog_client.spark.source.plan.rate_limits import must_wait
from oncelog_client.spark.source.plan.splits import OffsetRange
from oncelog_client.values import TopicPartition

from . import logs
from .catalogue import METADATA_AGE_MS
from .offset_specs import at_sink_end, kept_by_sink, resolve
from .partition_reads import PartitionReads, input_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from oncelog_client.spark.offsets.offsets import Offsets
    from oncelog_client.spark.source.plan.source_options import SourceOptions

    from .catalogue import Catalogue

_log = logging.getLogger(__name__)

_NO_LIMIT: Final = (1 << 63) - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader. Every method may raise OptionError, DataLossError, KafkaError or TimeoutError.
    An error ends the query, so these methods retry after transient errors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._reads = PartitionReads.of(options, columns)
        # The last known ends, and the target of `Trigger.AvailableNow`, at which the query ends.
        self._ends: Offsets = {}
        self._target: Offsets | None = None
        self._topic_ids: dict[str, bytes] = {}
        self._triggered_ms: float | None = None
        self._planned: dict[str, Any] | None = None

    # -- the start

    def initialOffset(self) -> dict[str, Any]:
        return start_symbol(self._options.start)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = logs.ask(self._options, self._latest)

    # -- the end

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark calls this once at each start of a query, so the remarks are logged here.
        for remark in self._options.remarks:
            _log.warning("%s", remark)
        # This source never returns ReadAllAvailable as default, so that value means that Spark has
        # set it (`Trigger.Once`).
        return ReadMaxRows(self._options.max_offsets or _NO_LIMIT)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        position = from_json(start)
        end = self._first_end(limit) if position is None else self._next_end(position, limit)
        # Without new offsets the text must not change, or Spark runs an empty batch. The text of
        # the first offset may also have the start of the query.
        self._planned = end if from_json(end) != position else dict(start)
        return self._planned

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._ends) or None

    # -- the tasks

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        starts, ends = from_json(start), from_json(end)
        if starts is None:
            starts = carried_start(end) or {}
        ranges = [
            OffsetRange(partition, starts[partition], last)
            for partition, last in sorted((ends or {}).items())
            if partition in starts and starts[partition] < last
        ]
        if not ranges:
            return []
        # True if an earlier process planned the end, or if the end is limited by the target, which
        # was fixed when the query started. The log may have changed since.
        is_old = end != self._planned or self._target is not None
        kept, losses, ids = logs.ask(
            self._options, lambda catalogue: _check(catalogue, ranges, is_old)
        )
        logs.report(losses, fail=self._options.fail_on_data_loss)
        # The ids from the planning of the end, if this process planned it: a topic may have been
        # created again since.
        return input_partitions(kept, self._options, {**ids, **self._topic_ids})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reads.read(partition)

    # -- the commit

    def commit(self, end: dict[str, Any]) -> None:
        """Commit to `commitOffsetsToGroup`, for tools that show lag. The query itself uses its
        checkpoint."""
        group, offsets = self._options.commit_to_group, from_json(end)
        if group is None or not offsets:
            return
        try:
            logs.ask(self._options, lambda catalogue: catalogue.commit(group, offsets))
        except (KafkaError, TimeoutError) as error:
            _log.warning("commitOffsetsToGroup=%s: not committed: %s", group, error)

    # -- planning

    def _first_end(self, limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the first batch. If the query begins at the end of a sink, the result
        contains the end that was read from the sink's state. The sink compares it with its state
        when it has fenced the older query, which may commit a batch until then."""
        options, place = self._options, self._options.start

        async def begin(catalogue: Catalogue) -> tuple[Offsets, Offsets, Offsets]:
            ends = await logs.first_ends(catalogue, options)
            if self._target is not None:
                ends = {
                    partition: end for partition, end in self._target.items() if partition in ends
                }
            self._remember(catalogue, ends)
            if isinstance(place, AtSink):
                kept = await kept_by_sink(catalogue, place.sink_id)
                return await at_sink_end(catalogue, kept, ends), ends, kept
            return await resolve(catalogue, place, ends, options, starting=True), ends, {}

        starts, ends, kept = logs.ask(options, begin)
        first = to_json(starts)
        if isinstance(limit, ReadAllAvailable):
            first = whole_stream(
                starts, {start: max(ends[start], starts[start]) for start in starts}
            )
        return with_sink_end(first, place.sink_id, kept) if isinstance(place, AtSink) else first

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

    async def _look(
        self, catalogue: Catalogue, position: Offsets
    ) -> tuple[SettledOffsets, Offsets]:
        """Return the next offsets to read, and the ends. A loss counts only if it remains after
        `fetchOffset.numRetries`, because a broker that has just started may not know all
        partitions."""
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
                # The response to ListOffsets has no topic id. If the topic's id is the same before
                # and after the response, the response is about the topic with this id.
                there = await catalogue.partitions()
                ends = {partition: end for partition, end in ends.items() if partition in there}
        ids = catalogue.topic_ids()
        recreated = frozenset(
            topic for topic, old in self._topic_ids.items() if ids.get(topic, old) != old
        )
        asked = questions(position, Logs(ends, {}, {}, recreated))
        firsts = await catalogue.firsts(asked.firsts)
        ends = {
            partition: end
            for partition, end in ends.items()
            if partition in firsts or partition not in asked.firsts
        }
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
) -> tuple[list[OffsetRange], list[str], dict[str, bytes]]:
    """Return the part of the planned ranges that can be read, descriptions of the lost records, and
    the topic ids. `is_old`: also check that the logs still reach the ends of the ranges."""
    partitions = frozenset(wanted.partition for wanted in ranges)
    firsts, ends = await catalogue.firsts(partitions), None
    if is_old:
        ends = await catalogue.high_watermarks(partitions)
        firsts = {partition: first for partition, first in firsts.items() if partition in ends}
    return *readable(ranges, firsts, ends), catalogue.topic_ids()
