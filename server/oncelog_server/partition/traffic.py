"""The counters of one partition's traffic with clients (Kafka's BrokerTopicStats)."""

from __future__ import annotations

from oncelog_server.log.log import PartitionLog
from oncelog_server.views.partitions import Traffic


class PartitionTraffic:
    """Counts since the partition was opened. The log knows how much was appended. A follower counts
    what it has replicated, so that an append of the leader has nothing to count."""

    __slots__ = ("bytes_out", "replicated_bytes", "replicated_records")

    def __init__(self) -> None:
        # Bytes of records in responses to consumers.
        self.bytes_out = 0
        # The part of the appended records and bytes that came from another leader.
        self.replicated_records = self.replicated_bytes = 0

    def of(self, log: PartitionLog) -> Traffic:
        """Return the traffic of the partition with this log. Kafka's
        ReplicaManager.appendToLocalLog counts appends of the leader only."""
        return Traffic(
            log.log_end_offset - log.opened_at_offset - self.replicated_records,
            log.segments.appended_bytes - self.replicated_bytes,
            self.bytes_out,
        )
