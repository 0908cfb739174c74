"""The producer of task attempts, which lives for as long as its worker: topics grow meanwhile."""

from __future__ import annotations

from oncelog_client.producer import Producer


class TaskProducer(Producer):
    """A producer that can look again, before its metadata are `metadata_max_age_ms` old."""

    async def partitions_now(self, topic: str) -> int:
        """How many partitions a topic has, asked of the broker. Raises as `partitions_for`."""
        await self._cluster.retry(self._cluster.refresh, self.config.max_block_ms)
        return len(await self.partitions_for(topic))
