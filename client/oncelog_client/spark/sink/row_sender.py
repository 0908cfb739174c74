"""The rows of one task into a producer: batch by batch, as fast as `buffer_memory` lets them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from oncelog_client.io.clock import wall_ms
from oncelog_client.io.randomness import below

from .arrow_encode import RowEncoder
from .task_producer import TaskProducer

# More than a producer's own default, as rows come by the thousand: few requests, few batches to
# read again. Below max.message.bytes, as it is by default, with room for growth.
BATCH_SIZE: Final = 256 * 1024


class RowSender:
    """`topic` overrides the column of that name; `batch_size` in bytes."""

    def __init__(
        self, producer: TaskProducer, topic: str | None = None, batch_size: int = BATCH_SIZE
    ) -> None:
        self._producer = producer
        size = min(batch_size, producer.config.max_request_size)
        self._encoder = RowEncoder(topic, size, below)
        self._partition_counts: dict[str, int] = {}

    async def send(self, rows: pa.RecordBatch) -> None:
        """Buffer the rows. Raises RowError, and what `Producer.send_encoded` raises; whether they
        were written, flushing the transaction tells, or handing it over."""
        for topic in self._encoder.topics(rows):
            if topic not in self._partition_counts:
                partitions = await self._producer.partitions_for(topic)
                self._partition_counts[topic] = len(partitions)
        for topic in self._encoder.outgrown(rows, self._partition_counts):
            self._partition_counts[topic] = await self._producer.partitions_now(topic)
        for partition, records in self._encoder.encode(rows, self._partition_counts, wall_ms()):
            await self._producer.send_encoded(partition, records)
