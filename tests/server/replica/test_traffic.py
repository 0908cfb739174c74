"""The bytes of replication, and the part of them that reassignments cause."""

from __future__ import annotations

from oncelog_server.replica.traffic import ReplicationTraffic
from oncelog_server.topic_partition import TopicPartition

STAYS, MOVES = TopicPartition("t", 0), TopicPartition("t", 1)
ME, OTHER = 1, 2


def test_only_the_bytes_of_added_replicas_count_as_those_of_reassignments() -> None:
    added = {(MOVES, ME), (STAYS, OTHER)}
    traffic = ReplicationTraffic(ME, lambda name, broker: (name, broker) in added)
    traffic.fetched(STAYS, 1)
    traffic.fetched(MOVES, 10)
    assert (traffic.bytes_in, traffic.reassigned_in) == (11, 10)
    traffic.sent(STAYS, OTHER, 100)
    traffic.sent(MOVES, OTHER, 1_000)
    assert (traffic.bytes_out, traffic.reassigned_out) == (1_100, 100)
