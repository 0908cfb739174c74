"""One task: a range of a partition, read in the executor's Python worker."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from oncelog_client.errors import KafkaError
from oncelog_client.spark.prompt_worker import PromptWorker
from oncelog_client.spark.source.plan import data_loss
from oncelog_client.spark.source.plan.source_options import SourceOptions
from oncelog_client.spark.source.plan.splits import OffsetRange, split

from .range_reader import NO_TOPIC_ID, DataLost, ReadSettings, TopicRecreated, read_range

_log = logging.getLogger(__name__)


class Task(NamedTuple):
    """The work of one task. `topic_id`: the topic's id when the range was planned, or NO_TOPIC_ID
    if the broker reports none."""

    range: OffsetRange
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class PartitionReads:
    """The part of a reader that all tasks of a query share. Spark pickles it for the tasks."""

    settings: ReadSettings
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    worker: PromptWorker = field(default_factory=PromptWorker, compare=False, repr=False)

    @staticmethod
    def of(options: SourceOptions, columns: tuple[str, ...]) -> PartitionReads:
        settings = ReadSettings(consumer=options.consumer, poll_timeout_ms=options.poll_timeout_ms)
        return PartitionReads(settings, columns, options.fail_on_data_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a `Task`. Yield nothing for None, which Spark passes if `partitions`
        returns an empty list. If the log begins after the next offset, ends before it, or was
        created again, raise DataLossError. Without `failOnDataLoss`, continue at the beginning of
        the log in the first case, and stop otherwise.
        """
        if partition.value is None:
            return
        (topic_partition, start, end), topic_id = partition.value
        while start < end:
            try:
                yield from read_range(
                    self.settings, topic_partition, start, end, self.columns, topic_id
                )
                return
            except TopicRecreated as recreated:
                loss = data_loss.replaced(topic_partition, start, end)
                if self.fail_on_data_loss:
                    raise data_loss.error([loss]) from recreated
                _log.warning("%s", loss)
                return
            except DataLost as lost:
                start = lost.log_start_offset
                is_truncated = start > lost.wanted
                say = data_loss.truncated if is_truncated else data_loss.emptied
                loss = say(topic_partition, lost.wanted, start)
                if self.fail_on_data_loss:
                    raise data_loss.error([loss]) from lost
                _log.warning("%s", loss)
                if not is_truncated:
                    return
            except KafkaError as error:
                from oncelog_client.spark.settings.rights import explain_refusal
                from oncelog_client.spark.source.plan.source_rights import source_rights

                explain_refusal(error, source_rights([topic_partition.topic]))
                raise


def input_partitions(
    ranges: list[OffsetRange], options: SourceOptions, topic_ids: Mapping[str, bytes]
) -> list[InputPartition]:
    """Split the ranges, and return a task for each piece. `topic_ids`: the ids of the topics with
    the planned offsets."""
    pieces = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
    return [
        InputPartition(Task(piece, topic_ids.get(piece.partition.topic, NO_TOPIC_ID)))
        for piece in pieces
    ]
