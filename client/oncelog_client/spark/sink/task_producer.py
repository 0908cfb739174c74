"""The producer of task attempts. A worker keeps a producer from one batch to the next
(module `producers`). In that time a topic may get new partitions."""

from __future__ import annotations

from oncelog_client.producer import Producer


class TaskProducer(Producer):
    """A producer that can refresh the metadata of a topic before `metadata_max_age_ms`."""

    async def partitions_now(self, topic: str) -> int:
        """Return the number of partitions of a topic, read from the broker. Raises the errors of
        `partitions_for`."""
        await self._cluster.retry(self._cluster.refresh, self.config.max_block_ms)
        return len(await self.partitions_for(topic))
