"""The replicas that a consumer reads from: the leader of a partition, or a follower near the
consumer that the leader has named (KIP-392)."""

from __future__ import annotations

from collections.abc import Collection

from oncelog_client.values import TopicPartition


class ReadReplicas:
    """A follower is used for `max_age_ms` (metadata.max.age.ms), or until it fails. Then the
    consumer reads from the leader again, which may name a follower."""

    def __init__(self, max_age_ms: float) -> None:
        self._max_age_ms = max_age_ms
        # The node id of the follower, and the time at which it is no longer used.
        self._followers: dict[TopicPartition, tuple[int, float]] = {}

    def source(
        self, partition: TopicPartition, leader: int, alive: Collection[int], now_ms: float
    ) -> int:
        """Return the node id of the replica to read from. `alive` are the known brokers."""
        found = self._followers.get(partition)
        if found is None:
            return leader
        node, until_ms = found
        if now_ms < until_ms and node in alive:
            return node
        del self._followers[partition]
        return leader

    def prefer(self, partition: TopicPartition, node: int, now_ms: float) -> None:
        """Read from this follower from now on."""
        self._followers[partition] = (node, now_ms + self._max_age_ms)

    def drop(self, partition: TopicPartition) -> bool:
        """Read from the leader again. Return False if the partition is read from there already."""
        return self._followers.pop(partition, None) is not None

    def drop_follower(self, node: int) -> list[TopicPartition]:
        """Read from the leader again in each partition that is read from this broker. Return these
        partitions."""
        dropped = [partition for partition, found in self._followers.items() if found[0] == node]
        for partition in dropped:
            del self._followers[partition]
        return dropped
