"""The read model of a partition."""

from __future__ import annotations

from oncelog_server.partition.view import partition_view
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition


def test_a_view_shows_the_moment_and_does_not_change() -> None:
    found = partition()
    found.append(batch(), now_ms=NOW_MS)
    before = partition_view(found)
    found.append(
        batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        now_ms=NOW_MS + 5,
    )
    found.bytes_out += 9
    assert (before.log_end_offset, before.messages_in, before.producer_ids) == (1, 1, 0)
    after = partition_view(found)
    assert (after.log_end_offset, after.high_watermark, after.last_stable_offset) == (2, 2, 1)
    assert (after.bytes_out, after.messages_in, after.producer_ids) == (9, 2, 1)
    assert after.size_bytes > before.size_bytes
    (transaction,) = after.open_transactions
    assert (transaction.producer_id, transaction.updated_ms) == (7, NOW_MS + 5)
    assert (after.partition, after.segments) == (found.topic_partition, 1)


def test_a_leader_that_misses_replicas_is_under_replicated_and_a_follower_is_not() -> None:
    found = partition()
    found.become_leader(0, 1, (0, 1), (0, 1))
    assert not partition_view(found).is_under_replicated
    found.become_leader(0, 2, (0,), (0, 1))
    assert partition_view(found).is_under_replicated
    found.become_follower(1, 3)
    assert not partition_view(found).is_under_replicated
