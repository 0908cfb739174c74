"""Import and start the replication at the first partition with several replicas. A broker without
such a partition never imports the replication."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog_server.partition.partition import Partition
from oncelog_server.topic_partition import TopicPartition

if TYPE_CHECKING:
    from oncelog_server.replication import Replication


class LateReplication:
    """Makes the replication at its first use. `make` imports and returns it."""

    def __init__(self, make: Callable[[], Replication]) -> None:
        self._make = make
        self._replication: Replication | None = None

    def started(self) -> Replication:
        """Return the replication. The first call starts it."""
        if self._replication is None:
            self._replication = self._make()
        return self._replication

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, if it has one."""
        if partition.leader_id >= 0 or self._replication is not None:
            self.started().follow(partition)

    def stop_following(self, name: TopicPartition) -> None:
        if self._replication is not None:
            self._replication.stop_following(name)

    def stop(self) -> None:
        if self._replication is not None:
            self._replication.stop()
