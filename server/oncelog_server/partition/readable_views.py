"""The read models of readable records in the partitions that this broker leads.

This is a module of its own, because a broker without metrics must not import the code that counts
records.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.readable import Walked
from oncelog_server.partition.lag import walk_readable
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.storage.files import StorageError
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import ReadableView


class ReadableViews:
    """Counts records for the page of `/metrics`. Each call looks its partition up again, because
    the page is made in steps, and a partition may be deleted between two steps."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def view(self, name: TopicPartition) -> ReadableView | None:
        """Return the offsets of the partition. Return None if this broker does not lead the
        partition."""
        partition = self._partitions.get(name)
        if partition is None or not partition.is_leader:
            return None
        return ReadableView(
            name,
            partition.topic_id,
            partition.config.is_compacted,
            partition.log_start_offset,
            partition.last_stable_offset,
            partition.high_watermark,
        )

    def walk(self, view: ReadableView, first_offset: int, end_offset: int) -> Iterator[Walked]:
        """Count the records of `first_offset`..`end_offset` (exclusive), without markers and
        aborted records. Yield the total so far after each step (`log.readable`). Raises Refused
        (UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR)."""
        partition = self._partitions.get(view.partition)
        if partition is None or partition.topic_id != view.topic_id:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            yield from walk_readable(partition, first_offset, end_offset)
        except (StorageError, CorruptLog) as error:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
