"""A partition: its high watermark, the requests that wait for it, leadership, guards."""

from __future__ import annotations

from functools import partial

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.config import LogConfig
from oncelog_server.partition.isolation import Isolation
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import mark, partition, refusal, send, waiter
from tests.server.storage.memory_files import MemoryFiles

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
MANY = 1 << 30


# --- the high watermark


def test_without_flush_on_ack_appended_records_are_committed() -> None:
    replica = partition()
    replica.append(batch(3), now_ms=NOW_MS)
    assert replica.high_watermark == replica.log_end_offset == 3
    assert waiter(replica, 3) == [ErrorCode.NONE]


def test_with_flush_on_ack_records_on_disk_are_committed() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(3), now_ms=NOW_MS)
    first = waiter(replica, 3)
    replica.append(batch(2), now_ms=NOW_MS)
    second = waiter(replica, 5)
    assert (replica.high_watermark, first, second) == (0, [], [])
    files.pending.pop(0)()
    assert (replica.high_watermark, first, second) == (3, [ErrorCode.NONE], [])
    files.settle()
    assert (replica.high_watermark, second) == (5, [ErrorCode.NONE])
    assert replica.read(0, MANY, RU, at_least_one=True).high_watermark == 5


def test_uncommitted_records_are_not_read() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(3), now_ms=NOW_MS)
    assert replica.read(0, MANY, RU, at_least_one=True).records is None
    assert (
        replica.read(3, MANY, RU, at_least_one=True).records is None
    )  # the offset is the log end, so the read is in range
    files.settle()
    assert replica.read(0, MANY, RU, at_least_one=True).records is not None


def test_flush_messages_1_holds_every_response_until_its_own_flush() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_messages=1)
    replica.append(batch(), now_ms=NOW_MS)
    first = waiter(replica, 1)
    replica.append(batch(), now_ms=NOW_MS)
    second = waiter(replica, 2)
    files.pending.pop(0)()
    assert (first, second) == ([ErrorCode.NONE], [])
    files.settle()
    assert second == [ErrorCode.NONE]
    replica.append(batch(), now_ms=NOW_MS)
    assert replica.high_watermark == 2


def test_flush_messages_5_holds_the_response_to_the_fifth_message() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_messages=5)
    replica.append(batch(4), now_ms=NOW_MS)
    assert (replica.high_watermark, len(files.pending)) == (4, 0)
    replica.append(batch(1), now_ms=NOW_MS)
    assert replica.high_watermark == 4
    replica.append(batch(1), now_ms=NOW_MS)
    files.pending.pop(0)()
    assert replica.high_watermark == 6  # one record is not on disk, as flush.messages=5 allows
    files.settle()
    replica.append(batch(4), now_ms=NOW_MS)
    assert replica.high_watermark == 10


def test_the_high_watermark_never_goes_back() -> None:
    replica = partition()
    replica.append(batch(3), now_ms=NOW_MS)
    replica.on_flushed(1)
    assert replica.high_watermark == 3


def test_a_failed_append_moves_no_offset() -> None:
    files = MemoryFiles()
    replica = partition(files)
    files.fail_append(match=".log")
    assert refusal(lambda: replica.append(batch(), now_ms=NOW_MS)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (replica.high_watermark, replica.log_end_offset) == (0, 0)
    replica.append(batch(), now_ms=NOW_MS)
    assert replica.high_watermark == 1


def test_d6_a_refused_leader_epoch_is_written_later_and_the_append_succeeds() -> None:
    """The batch itself has the epoch, so the epoch checkpoint may be written later.
    `tests/server/log/test_refused_files.py` does the same for all files that an append writes."""
    files = MemoryFiles()
    replica = partition(files)
    files.fail_append(match="leader-epoch-checkpoint")
    replica.append(batch(), now_ms=NOW_MS)
    assert replica.high_watermark == 1
    assert replica._log.refusals.current is not None
    replica.try_again(NOW_MS)
    assert replica._log.refusals.current is None
    assert files.exists("topic-0/leader-epoch-checkpoint")


def test_S16_a_failed_flush_takes_the_partition_offline_for_good() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(), now_ms=NOW_MS)
    first = waiter(replica, 1)
    replica.append(batch(), now_ms=NOW_MS)
    second = waiter(replica, 2)
    files.fail_sync()
    files.settle()
    # A request that begins to wait after the failure gets an error at once.
    late = waiter(replica, 2)
    assert first == second == late == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert (replica.high_watermark, replica.recovery_point) == (0, 0)
    for call in (
        replica.check_leader,
        partial(replica.append, batch(), now_ms=NOW_MS),
        partial(mark, replica, 1),
    ):
        assert refusal(call) is ErrorCode.KAFKA_STORAGE_ERROR


# --- leadership


def test_74_75_6_leader_epochs_of_clients() -> None:
    replica = partition()
    replica.become_leader(0, 5, (0,), (0,))
    replica.check_leader()
    replica.check_leader(5)
    assert refusal(lambda: replica.check_leader(4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(lambda: replica.check_leader(6)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    replica.become_follower(1, 6)
    assert refusal(replica.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_request_parked_for_a_commit_fails_when_leadership_is_lost() -> None:
    replica = partition(flush_on_ack=True)
    replica.append(batch(), now_ms=NOW_MS)
    codes = waiter(replica, 1)
    replica.become_follower(1, 1)
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    code = refusal(lambda: replica.append(batch(), now_ms=NOW_MS))
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(lambda: mark(replica, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_update_with_an_older_leader_epoch_is_ignored() -> None:
    replica = partition()
    replica.become_leader(0, 5, (0,), (0,))
    replica.become_follower(1, 4)
    assert replica.is_leader
    replica.become_follower(1, 6)
    replica.become_leader(0, 5, (0,), (0,))
    assert not replica.is_leader


def test_batches_carry_the_leader_epoch_they_were_appended_in() -> None:
    replica = partition()
    replica.append(batch(2), now_ms=NOW_MS)
    replica.become_leader(0, 3, (0,), (0,))
    replica.append(batch(2), now_ms=NOW_MS)
    assert replica.end_offset_for_epoch(0) == (0, 2)
    assert replica.end_offset_for_epoch(3) == (3, 4)


@pytest.mark.parametrize(
    ("setting", "replicas", "isr", "refused"),
    [
        pytest.param(2, (0,), (0,), False, id="2 counts as 1 with one replica"),
        pytest.param(2, (0, 1, 2), (0, 1), False, id="2 in-sync replicas are enough for 2"),
        pytest.param(2, (0, 1, 2), (0,), True, id="1 in-sync replica is too few for 2"),
        pytest.param(1, (0, 1), (0,), False, id="1 in-sync replica is enough for 1"),
        pytest.param(5, (0, 1, 2), (0, 1), True, id="5 counts as 3 with three replicas"),
    ],
)
def test_min_insync_replicas_counts_as_at_most_the_number_of_replicas(
    setting: int, replicas: tuple[int, ...], isr: tuple[int, ...], refused: bool
) -> None:
    replica = partition(min_insync_replicas=setting, replicas=replicas, isr=isr)
    if refused:
        assert refusal(replica.check_in_sync_replicas) is ErrorCode.NOT_ENOUGH_REPLICAS
    else:
        replica.check_in_sync_replicas()


def test_a_new_min_insync_replicas_counts_at_once() -> None:
    replica = partition(replicas=(0, 1))
    replica.check_in_sync_replicas()
    replica.reconfigure(LogConfig(min_insync_replicas=2))
    assert refusal(replica.check_in_sync_replicas) is ErrorCode.NOT_ENOUGH_REPLICAS


# --- replicas: `tests/server/replica` covers the rules


def test_a_follower_of_the_isr_holds_back_the_high_watermark_and_parked_requests() -> None:
    replica = partition(isr=(0, 1), replicas=(0, 1))
    replica.append(batch(3), now_ms=NOW_MS)
    codes = waiter(replica, 3)
    assert (replica.high_watermark, replica.is_committed, codes) == (0, False, [])
    assert replica.read(0, MANY, RU, at_least_one=True).records is None
    replica.replicas.record_fetch(1, 3, 3, NOW_MS)
    replica.append(batch(1), now_ms=NOW_MS)
    assert (replica.high_watermark, codes) == (3, [ErrorCode.NONE])


def test_a_followers_log_end_counts_only_in_its_leader_epoch() -> None:
    replica = partition(isr=(0, 1), replicas=(0, 1))
    replica.append(batch(3), now_ms=NOW_MS)
    replica.replicas.record_fetch(1, 3, 3, NOW_MS)
    replica.become_leader(0, 0, (0, 1), (0, 1))
    replica.append(batch(1), now_ms=NOW_MS)
    assert replica.high_watermark == 3
    replica.replicas.record_fetch(1, 4, 4, NOW_MS)
    replica.become_leader(0, 1, (0, 1), (0, 1))
    replica.append(batch(1), now_ms=NOW_MS)
    assert replica.high_watermark == 3


def test_below_the_min_isr_nothing_is_committed() -> None:
    replica = partition(min_insync_replicas=2, replicas=(0, 1))
    replica.append(batch(3), now_ms=NOW_MS)
    assert (replica.high_watermark, replica.log_end_offset) == (0, 3)


def test_after_a_lower_min_isr_nothing_is_committed_before_the_end_of_the_elr() -> None:
    replica = partition(min_insync_replicas=2, replicas=(0, 1))
    replica.become_leader(0, 0, (0,), (0, 1), has_elr=True)
    replica.replicas.require(1)
    replica.append(batch(3), now_ms=NOW_MS)
    assert (replica.high_watermark, replica.log_end_offset) == (0, 3)
    replica.become_leader(0, 0, (0,), (0, 1))
    assert replica.high_watermark == 3


# --- guards


def test_R12_M19_a_verification_guard_is_invalid_after_its_transaction_ends() -> None:
    replica = partition()
    guard = replica.guards.begin(7)
    replica.guards.check(7, guard)
    mark(replica, 7)  # ends the transaction of the first verification
    another = replica.guards.begin(7)  # belongs to the next transaction
    assert refusal(lambda: replica.guards.check(7, guard)) is ErrorCode.TRANSACTION_ABORTABLE
    replica.guards.check(7, another)


def test_a_marker_that_is_refused_removes_no_guard() -> None:
    replica = partition()
    mark(replica, 7, epoch=3)
    guard = replica.guards.begin(7)
    assert refusal(lambda: mark(replica, 7, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    replica.guards.check(7, guard)


def test_two_concurrent_verifications_share_a_guard_and_leave_none_behind() -> None:
    replica = partition()
    first, second = replica.guards.begin(7), replica.guards.begin(7)
    assert first is second
    replica.guards.end(7, first)
    replica.guards.check(7, second)
    replica.guards.end(7, second)
    assert len(replica.guards) == 0
    stale = replica.guards.begin(7)
    mark(replica, 7)
    fresh = replica.guards.begin(7)
    replica.guards.end(7, stale)
    replica.guards.check(7, fresh)


def test_only_a_transaction_of_the_same_epoch_is_open() -> None:
    replica = partition()
    assert not replica.has_open_transaction(7, 0)
    send(replica, 7, 0)
    assert replica.has_open_transaction(7, 0)
    assert not replica.has_open_transaction(7, 1)
    mark(replica, 7)
    assert not replica.has_open_transaction(7, 0)


@pytest.mark.parametrize("how", ["committed", "failed"])
def test_a_parked_produce_that_raises_keeps_no_reader_waiting(how: str) -> None:
    replica = partition()
    woken: list[None] = []

    def raising(code: ErrorCode) -> None:
        raise LookupError(code)

    replica.when_committed(1, raising)
    replica.read_waiters.add(lambda: woken.append(None))
    tell = partial(replica.append, batch(), now_ms=NOW_MS)
    with pytest.raises(LookupError):
        replica.fail("a disk") if how == "failed" else tell()
    assert woken == [None]


# --- a leader that may have been replaced


def test_a_suspended_leader_acknowledges_and_serves_nothing() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(3), now_ms=NOW_MS)
    waiting = waiter(replica, 3)
    replica.suspend()
    files.settle()
    assert (replica.high_watermark, waiting) == (0, [])
    for call in (
        replica.check_leader,
        partial(replica.append, batch(), now_ms=NOW_MS),
        partial(replica.append_decided, batch(), 1, now_ms=NOW_MS),
        partial(mark, replica, 7),
    ):
        assert refusal(call) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_suspended_leader_continues_where_it_was_if_it_still_leads() -> None:
    files = MemoryFiles()
    replica = partition(files, flush_on_ack=True)
    replica.append(batch(3), now_ms=NOW_MS)
    waiting = waiter(replica, 3)
    replica.suspend()
    files.settle()
    replica.resume()
    assert (replica.high_watermark, waiting) == (3, [ErrorCode.NONE])
    replica.append(batch(), now_ms=NOW_MS)
    assert replica.log_end_offset == 4


def test_a_suspended_leader_fails_its_requests_when_another_leads() -> None:
    replica = partition(isr=(0, 1), replicas=(0, 1))
    replica.append(batch(3), now_ms=NOW_MS)
    waiting = waiter(replica, 3)
    replica.suspend()
    assert waiting == []
    replica.become_follower(1, 1)
    assert waiting == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    replica.resume()
    assert not replica.is_leader


def test_a_leader_that_is_elected_while_it_is_suspended_serves_after_that() -> None:
    replica = partition()
    replica.become_leader(0, 1, (0,), (0,), is_suspended=True)
    assert refusal(replica.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.resume()
    replica.check_leader(1)


def test_the_high_watermark_of_a_suspended_leader_stays() -> None:
    replica = partition(isr=(0, 1), replicas=(0, 1))
    replica.append(batch(3), now_ms=NOW_MS)
    replica.suspend()
    replica.replicas.record_fetch(1, 3, 3, NOW_MS)
    replica.recompute_high_watermark()
    assert replica.high_watermark == 0
    replica.resume()
    assert replica.high_watermark == 3
