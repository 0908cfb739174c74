"""All waiting requests share one fsync. The tests call such an fsync a round."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.follower_log import Cut, FollowerLog
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition, refusal, waiter
from tests.server.storage.memory_files import MemoryFiles


def test_requests_during_a_round_share_the_next_round() -> None:
    files = MemoryFiles()
    flush = GroupFlush(files)
    replicas = [
        partition(files, TopicPartition("topic", n), flush=flush, flush_on_ack=True)
        for n in range(5)
    ]
    for replica in replicas:
        replica.append(batch(), now_ms=NOW_MS)
    assert len(files.pending) == 1
    files.pending.pop(0)()
    assert [replica.high_watermark for replica in replicas] == [1, 0, 0, 0, 0]
    assert len(files.pending) == 1
    files.pending.pop(0)()
    assert [replica.high_watermark for replica in replicas] == [1] * 5
    assert not files.pending


def test_records_appended_during_a_round_are_not_acknowledged_by_it() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(), now_ms=NOW_MS)
    sync = files.pending.pop(0)
    replica.append(batch(), now_ms=NOW_MS)
    sync()
    assert (replica.high_watermark, replica.recovery_point) == (1, 1)
    files.settle()
    assert (replica.high_watermark, replica.recovery_point) == (2, 2)


def test_after_a_failure_the_next_round_serves_later_requests() -> None:
    files = MemoryFiles()
    flush = GroupFlush(files)
    first = partition(files, TopicPartition("a", 0), flush=flush, flush_on_ack=True)
    second = partition(files, TopicPartition("b", 0), flush=flush, flush_on_ack=True)
    first.append(batch(), now_ms=NOW_MS)
    second.append(batch(), now_ms=NOW_MS)
    files.fail_sync()
    files.settle()
    assert first.offline is not None
    assert (second.offline, second.high_watermark) == (None, 1)


def test_bytes_not_covered_by_a_round_are_synced_by_the_next_one_after_a_roll() -> None:
    """Syncs may end in any order. Each sync covers only bytes written before it began, and counts
    once the syncs that overlapped it have ended."""
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(), now_ms=NOW_MS)
    replica.append(batch(), now_ms=NOW_MS)
    first = files.pending.pop(0)
    replica._log.roll(NOW_MS)
    roll = files.pending.pop(0)
    replica.append(batch(), now_ms=NOW_MS)
    first()
    assert replica.high_watermark == 0
    files.pending.pop(0)()
    assert replica.high_watermark == 0
    roll()
    assert replica.high_watermark == 3
    for segment in replica._log.segments:
        node = files.nodes[segment.log.path]
        assert node.durable == node.data, "the log acknowledged bytes that no sync has covered"
    assert replica._log.segments.unsynced == []


@pytest.mark.parametrize("fails", [False, True], ids=["synced", "not_synced"])
def test_a_callback_that_raises_affects_no_other_partition_of_its_round(fails: bool) -> None:
    files = MemoryFiles()
    flush = GroupFlush(files)
    replicas = [
        partition(files, TopicPartition("topic", n), flush=flush, flush_on_ack=True)
        for n in range(4)
    ]

    def broken(code: ErrorCode) -> None:
        raise LookupError

    for replica in replicas:
        replica.append(batch(), now_ms=NOW_MS)
    replicas[1].when_committed(1, broken)
    codes = waiter(replicas[2], 1)
    files.pending.pop(0)()
    files.fail_sync(int(fails))
    replicas[0].append(batch(), now_ms=NOW_MS)
    with pytest.raises(LookupError):
        files.pending.pop(0)()
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR if fails else ErrorCode.NONE]
    assert [replica.recovery_point for replica in replicas[1:]] == [0 if fails else 1] * 3
    assert [replica.high_watermark for replica in replicas[1:]] == [0 if fails else 1] * 3
    assert all((replica.offline is not None) is fails for replica in replicas[1:])
    files.settle()
    assert replicas[0].high_watermark == 2, "the next round begins in spite of the exception"


@pytest.mark.parametrize("round_ends_first", [True, False])
def test_s16_a_failed_fsync_of_a_roll_acknowledges_nothing(round_ends_first: bool) -> None:
    """The kernel reports the error to one of two syncs of a file. The syncs of the rounds then
    succeed, although the bytes are lost."""
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True, segment_bytes=2000)
    replica.append(batch(size=1500), now_ms=NOW_MS)
    first = waiter(replica, 1)
    replica.append(batch(size=1500), now_ms=NOW_MS)
    second = waiter(replica, 2)
    round_ends, roll_ends = files.pending
    files.pending.clear()
    if round_ends_first:
        round_ends()
    files.fail_sync()
    roll_ends()
    if not round_ends_first:
        round_ends()
    files.settle()
    assert (first, second) == ([ErrorCode.KAFKA_STORAGE_ERROR], [ErrorCode.KAFKA_STORAGE_ERROR])
    assert (replica.high_watermark, replica.recovery_point) == (0, 0)
    assert refusal(replica.check_leader) is ErrorCode.KAFKA_STORAGE_ERROR


def test_s16_a_failed_fsync_of_a_roll_takes_the_partition_offline() -> None:
    files = MemoryFiles()
    replica = partition(files, segment_bytes=2000)
    offline: list[str | None] = []
    replica.on_offline = lambda failed: offline.append(failed.offline)
    for _ in range(2):
        replica.append(batch(size=1500), now_ms=NOW_MS)
    files.fail_sync()
    files.settle()
    assert offline == [replica.offline] != [None]
    assert replica.refuses_appends is replica.failure is not None


def test_a_flush_that_began_before_a_truncation_does_not_move_the_high_watermark() -> None:
    """The records that were appended after the truncation are synced by another round."""
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True, replicas=(0, 1))
    replica.append(batch(1), now_ms=NOW_MS)
    files.settle()
    replica.append(batch(9), now_ms=NOW_MS)
    replica.become_follower(1, 1)
    copy, cut = FollowerLog(replica), Cut(1)
    copy.lower_recovery_point(cut)
    copy.cut(cut, NOW_MS)
    replica.become_leader(0, 2, (0,), (0, 1))
    replica.append(batch(2), now_ms=NOW_MS)
    codes = waiter(replica, 3)
    files.pending.pop(0)()
    assert (replica.high_watermark, codes) == (1, [])
    files.settle()
    assert (replica.high_watermark, codes) == (3, [ErrorCode.NONE])


def test_a_truncated_follower_is_synced_again_without_an_append() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True, replicas=(0, 1))
    replica.append(batch(3), now_ms=NOW_MS)
    replica.append(batch(9), now_ms=NOW_MS)
    replica.become_follower(1, 1)
    copy, cut = FollowerLog(replica), Cut(3)
    copy.lower_recovery_point(cut)
    copy.cut(cut, NOW_MS)
    replica.become_leader(0, 2, (0,), (0, 1))
    files.settle()
    assert (replica.high_watermark, replica.recovery_point) == (3, 3)


def test_a_flush_of_a_deleted_partition_ends_without_a_further_round() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(), now_ms=NOW_MS)
    replica.rename_directory("topic-0.deleted")
    files.settle()
    assert not files.pending
    assert (replica.high_watermark, replica.offline) == (0, None)
