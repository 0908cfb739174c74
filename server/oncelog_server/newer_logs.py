"""Find logs that are newer than the metadata: they have producer ids or leader epochs that the
metadata does not have yet. Such metadata comes from a backup. A broker that serves with it would
assign producer ids twice and elect leaders in used epochs.
"""

from __future__ import annotations

from oncelog_server.partition.partition import Partition
from oncelog_server.storage.layout import partition_directory


class NewerLogs:
    """Checks the logs. `found` has a sentence for each finding.

    `next_producer_id` is the first id that the metadata has not assigned.
    """

    def __init__(self, next_producer_id: int) -> None:
        self._next_producer_id = next_producer_id
        self.found: list[str] = []

    def look_at(self, partition: Partition, leader_epoch: int) -> None:
        """Check the log of a partition. `leader_epoch` is the partition's epoch in the
        metadata."""
        directory = partition_directory(*partition.topic_partition)
        epoch = partition.latest_leader_epoch
        if epoch > leader_epoch:
            self.found.append(
                f"{directory} has records of leader epoch {epoch}, but the metadata has "
                f"{leader_epoch}"
            )
        producer_id = partition.latest_producer_id()
        if producer_id >= self._next_producer_id:
            self.found.append(
                f"{directory} has records of producer id {producer_id}, but the metadata has "
                f"assigned only those below {self._next_producer_id}"
            )
