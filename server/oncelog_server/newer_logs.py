"""Find producer ids and leader epochs in the logs that are newer than the metadata.

The metadata then comes from a backup. A broker that serves with it would assign producer ids twice
and elect leaders in used epochs.
"""

from __future__ import annotations

from oncelog_server.log.log import PartitionLog


class NewerLogs:
    """Checks the logs. `found` has a sentence for each finding.

    `next_producer_id` is the first id that the metadata has not assigned.
    """

    def __init__(self, next_producer_id: int) -> None:
        self._next_producer_id = next_producer_id
        self.found: list[str] = []

    def look_at(self, log: PartitionLog, leader_epoch: int) -> None:
        """Check a log. `leader_epoch` is the partition's epoch in the metadata."""
        epoch = log.leader_epochs.latest_epoch
        if epoch > leader_epoch:
            self.found.append(
                f"{log.directory} has records of leader epoch {epoch}, but the metadata has "
                f"{leader_epoch}"
            )
        # A marker alone proves nothing: an operator may have written it.
        producer_id = max(
            (producer.producer_id for producer in log.producers if producer.batches), default=-1
        )
        if producer_id >= self._next_producer_id:
            self.found.append(
                f"{log.directory} has records of producer id {producer_id}, but the metadata has "
                f"assigned only those below {self._next_producer_id}"
            )
