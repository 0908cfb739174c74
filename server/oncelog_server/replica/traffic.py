"""The bytes of records between this broker and the other replicas (Kafka's BrokerTopicStats)."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.topic_partition import TopicPartition


class ReplicationTraffic:
    """Counts since the start. `is_added` returns True if a reassignment adds the replica of a
    broker to a partition."""

    def __init__(
        self, broker_id: int, is_added: Callable[[TopicPartition, int], bool] = lambda *_: False
    ) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.reassigned_in = 0
        self.reassigned_out = 0
        self._broker_id = broker_id
        self._is_added = is_added

    def fetched(self, name: TopicPartition, size: int) -> None:
        """Count bytes that this broker has appended as a follower."""
        self.bytes_in += size
        if self._is_added(name, self._broker_id):
            self.reassigned_in += size

    def sent(self, name: TopicPartition, follower: int, size: int) -> None:
        """Count bytes in the response to a follower."""
        self.bytes_out += size
        if self._is_added(name, follower):
            self.reassigned_out += size
