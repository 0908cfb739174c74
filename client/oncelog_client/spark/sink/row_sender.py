"""Sends the rows of one task: batch by batch, as fast as `buffer_memory` allows."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from oncelog_client.io.clock import wall_ms
from oncelog_client.io.randomness import below
from oncelog_client.spark.records.arrow_encode import RowEncoder

from .task_producer import TaskProducer

# Rows come by the thousand, so batches are larger than the producer's default: there are fewer
# requests, and readers get fewer batches. The size stays far below the default of
# max.message.bytes.
BATCH_SIZE: Final = 256 * 1024


class RowSender:
    """The sender of one task. `topic` overrides the column `topic`; `batch_size` is in bytes."""

    def __init__(
        self, producer: TaskProducer, topic: str | None = None, batch_size: int = BATCH_SIZE
    ) -> None:
        self._producer = producer
        size = min(batch_size, producer.config.max_request_size)
        self._encoder = RowEncoder(topic, size, below)
        self._partition_counts: dict[str, int] = {}

    async def send(self, rows: pa.RecordBatch) -> None:
        """Buffer the rows. Raises RowError, and the errors of `Producer.send_encoded`. Write errors
        come later: the flush or the hand-over of the transaction raises them."""
        counts = self._partition_counts
        offline: dict[str, frozenset[int]] = {}
        for topic in self._encoder.topics(rows):
            partitions = await self._producer.partitions_for(topic)
            # The count stays until a row names a partition beyond it, because it decides the
            # partitions of the keys.
            counts.setdefault(topic, len(partitions))
            offline[topic] = frozenset(p.partition for p in partitions if p.leader is None)
        for topic in self._encoder.outgrown(rows, counts):
            counts[topic] = await self._producer.partitions_now(topic)
        for partition, records in self._encoder.encode(rows, counts, wall_ms(), offline):
            await self._producer.send_encoded(partition, records)
