"""The reader of `spark.read.format("oncelog")`: a range of each partition, fixed when the batch is
planned."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from oncelog_client.spark.source.plan.planning import readable
from oncelog_client.spark.source.plan.splits import OffsetRange
from oncelog_client.spark.source.plan.undecided import beyond, check_decided

from . import logs
from .offset_specs import resolve
from .partition_reads import PartitionReads, input_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from oncelog_client.spark.source.plan.source_options import SourceOptions

    from .catalogue import Catalogue

_log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """The reader. Spark plans with it in a Python process of the driver, and reads with it in the
    executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._reads = PartitionReads.of(options, columns)

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks. Raises OptionError, NoSourceEnd, DataLossError, UndecidedError,
        KafkaError or TimeoutError."""
        for remark in self._options.remarks:
            _log.warning("%s", remark)
        ranges, losses, topic_ids = logs.ask(self._options, self._plan)
        logs.report(losses, fail=self._options.fail_on_data_loss)
        return input_partitions(ranges, self._options, topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reads.read(partition)

    async def _plan(
        self, catalogue: Catalogue
    ) -> tuple[list[OffsetRange], list[str], dict[str, bytes]]:
        options = self._options
        ends = await logs.first_ends(catalogue, options)
        topic_ids = catalogue.topic_ids()
        start = await resolve(catalogue, options.start, ends, options, starting=True)
        end = await resolve(catalogue, options.end, ends, options, starting=False)
        ranges = [
            OffsetRange(partition, start[partition], end[partition]) for partition in sorted(start)
        ]
        if options.read_committed:
            further = beyond(ranges, ends)
            check_decided(ranges, ends, await catalogue.high_watermarks(further))
        firsts = await catalogue.firsts(frozenset(start))
        return *readable(ranges, firsts, ends), topic_ids
