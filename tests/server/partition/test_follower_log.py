"""A follower appends only batches of the leader epochs up to the epoch that it follows."""

from __future__ import annotations

from oncelog_server.partition.follower_log import FollowerLog
from tests.server.log.driver import NOW_MS
from tests.server.log.followers import placed
from tests.server.partition.partitions import partition


def test_KAFKA_18723_a_batch_above_the_followed_epoch_is_not_appended() -> None:
    replica = partition(replicas=(0, 1))
    replica.become_follower(1, 5)
    copy = FollowerLog(replica)
    data = placed(0, 4) + placed(2, 5)
    assert copy.append(data + placed(4, 6), NOW_MS) == len(data)
    assert copy.append(placed(4, 6), NOW_MS) == 0
    assert (copy.end_offset, replica.latest_leader_epoch) == (4, 5)
    replica.become_follower(1, 6)
    copy.append(placed(4, 6), NOW_MS)
    assert (copy.end_offset, replica.latest_leader_epoch) == (6, 6)
