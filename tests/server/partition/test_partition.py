"""A partition: watermarks, who waits on them, leadership, isolation."""

from __future__ import annotations

from functools import partial

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_server.log.results import Origin
from oncelog_server.partition.partition import Isolation, Partition
from oncelog_server.refusal import Refused
from oncelog_server.storage.files import StorageError
from tests.server.coordination.world import read_values
from tests.server.log.driver import NOW_MS, batch, records
from tests.server.partition.partitions import mark, partition
from tests.server.storage.memory_files import MemoryFiles

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
MANY = 1 << 30


def send(one: Partition, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0) -> int:
    """The first offset of a transactional batch."""
    data = batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        is_transactional=True,
    )  # fmt: skip
    return one.append(data, now_ms=NOW_MS).base_offset


def waiter(one: Partition, end_offset: int) -> list[ErrorCode]:
    codes: list[ErrorCode] = []
    one.when_committed(end_offset, codes.append)
    return codes


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


# --- the high watermark


def test_without_flush_on_ack_what_is_appended_is_committed() -> None:
    one = partition()
    one.append(batch(3), now_ms=NOW_MS)
    assert one.high_watermark == one.log.log_end_offset == 3
    assert waiter(one, 3) == [ErrorCode.NONE]


def test_with_flush_on_ack_committed_is_what_is_on_disk() -> None:
    files = MemoryFiles()
    one = partition(files, flush_on_ack=True)
    one.append(batch(3), now_ms=NOW_MS)
    first = waiter(one, 3)
    one.append(batch(2), now_ms=NOW_MS)
    second = waiter(one, 5)
    assert (one.high_watermark, first, second) == (0, [], [])
    files.pending.pop(0)()
    assert (one.high_watermark, first, second) == (3, [ErrorCode.NONE], [])
    files.settle()
    assert (one.high_watermark, second) == (5, [ErrorCode.NONE])
    assert one.read(0, MANY, RU, at_least_one=True).high_watermark == 5


def test_what_is_not_committed_is_not_read() -> None:
    files = MemoryFiles()
    one = partition(files, flush_on_ack=True)
    one.append(batch(3), now_ms=NOW_MS)
    assert one.read(0, MANY, RU, at_least_one=True).records is None
    assert one.read(3, MANY, RU, at_least_one=True).records is None  # appended: not out of range
    files.settle()
    assert one.read(0, MANY, RU, at_least_one=True).records is not None


def test_flush_messages_1_holds_every_answer_until_its_own_flush() -> None:
    files = MemoryFiles()
    one = partition(files, flush_messages=1)
    one.append(batch(), now_ms=NOW_MS)
    first = waiter(one, 1)
    one.append(batch(), now_ms=NOW_MS)
    second = waiter(one, 2)
    files.pending.pop(0)()
    assert (first, second) == ([ErrorCode.NONE], [])
    files.settle()
    assert second == [ErrorCode.NONE]
    one.append(batch(), now_ms=NOW_MS)
    assert one.high_watermark == 2


def test_flush_messages_5_holds_the_fifth() -> None:
    files = MemoryFiles()
    one = partition(files, flush_messages=5)
    one.append(batch(4), now_ms=NOW_MS)
    assert (one.high_watermark, len(files.pending)) == (4, 0)
    one.append(batch(1), now_ms=NOW_MS)
    assert one.high_watermark == 4
    one.append(batch(1), now_ms=NOW_MS)
    files.pending.pop(0)()
    assert one.high_watermark == 6  # one not on disk, as allowed
    files.settle()
    one.append(batch(4), now_ms=NOW_MS)
    assert one.high_watermark == 10


def test_the_high_watermark_never_goes_back() -> None:
    one = partition()
    one.append(batch(3), now_ms=NOW_MS)
    one.on_flushed(1)
    assert one.high_watermark == 3


def test_a_failed_append_moves_nothing() -> None:
    files = MemoryFiles()
    one = partition(files)
    files.fail_append()
    assert refusal(lambda: one.append(batch(), now_ms=NOW_MS)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (one.high_watermark, one.log.log_end_offset) == (0, 0)
    one.append(batch(), now_ms=NOW_MS)
    assert one.high_watermark == 1


def test_S16_a_failed_flush_takes_the_partition_offline_and_no_later_one_brings_it_back() -> None:
    files = MemoryFiles()
    one = partition(files, flush_on_ack=True)
    one.append(batch(), now_ms=NOW_MS)
    first = waiter(one, 1)
    one.append(batch(), now_ms=NOW_MS)
    second = waiter(one, 2)
    files.fail_sync()
    files.settle()
    assert first == second == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert (one.high_watermark, one.log.recovery_point) == (0, 0)
    for call in (
        one.check_leader,
        partial(one.append, batch(), now_ms=NOW_MS),
        partial(mark, one, 1),
    ):
        assert refusal(call) is ErrorCode.KAFKA_STORAGE_ERROR


# --- leadership


def test_74_75_6_leader_epochs_of_clients() -> None:
    one = partition()
    one.become_leader(0, 5, (0,), (0,))
    one.check_leader()
    one.check_leader(5)
    assert refusal(lambda: one.check_leader(4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(lambda: one.check_leader(6)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    one.become_follower(1, 6)
    assert refusal(one.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_waits_for_a_commit_is_told_when_leadership_is_lost() -> None:
    one = partition(flush_on_ack=True)
    one.append(batch(), now_ms=NOW_MS)
    codes = waiter(one, 1)
    one.become_follower(1, 1)
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    code = refusal(lambda: one.append(batch(), now_ms=NOW_MS))
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(lambda: mark(one, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_news_of_an_older_epoch_is_old() -> None:
    one = partition()
    one.become_leader(0, 5, (0,), (0,))
    one.become_follower(1, 4)
    assert one.is_leader
    one.become_follower(1, 6)
    one.become_leader(0, 5, (0,), (0,))
    assert not one.is_leader


def test_batches_carry_the_leader_epoch_they_were_appended_in() -> None:
    one = partition()
    one.append(batch(2), now_ms=NOW_MS)
    one.become_leader(0, 3, (0,), (0,))
    one.append(batch(2), now_ms=NOW_MS)
    assert one.log.end_offset_for_epoch(0) == (0, 2)
    assert one.log.end_offset_for_epoch(3) == (3, 4)


@pytest.mark.parametrize(
    ("setting", "replicas", "isr", "refused"),
    [
        pytest.param(2, (0,), (0,), False, id="one broker needs no settings"),
        pytest.param(2, (0, 1, 2), (0, 1), False, id="enough"),
        pytest.param(2, (0, 1, 2), (0,), True, id="too few"),
        pytest.param(1, (0, 1), (0,), False, id="one is enough"),
        pytest.param(5, (0, 1, 2), (0, 1), True, id="all that there are"),
    ],
)
def test_min_insync_replicas_counts_no_more_than_there_are_replicas(
    setting: int, replicas: tuple[int, ...], isr: tuple[int, ...], refused: bool
) -> None:
    one = partition(min_insync_replicas=setting, replicas=replicas, isr=isr)
    if refused:
        assert refusal(one.check_in_sync_replicas) is ErrorCode.NOT_ENOUGH_REPLICAS
    else:
        one.check_in_sync_replicas()


# --- isolation


def test_L1_the_last_stable_offset_is_the_first_of_an_open_transaction() -> None:
    one = partition()
    one.append(batch(2), now_ms=NOW_MS)
    first = send(one, 7, 0, 3)
    send(one, 8, 0)
    one.append(batch(1), now_ms=NOW_MS)
    assert (one.last_stable_offset, one.high_watermark) == (first, 7)
    assert (one.end_offset(RC), one.end_offset(RU)) == (first, 7)
    mark(one, 8)
    assert one.last_stable_offset == first
    mark(one, 7)
    assert one.last_stable_offset == one.high_watermark == 9


def test_L3_a_marker_that_is_not_committed_ends_nothing_for_a_reader() -> None:
    files = MemoryFiles()
    one = partition(files, flush_on_ack=True)
    send(one, 7, 0)
    files.settle()
    mark(one, 7)
    assert (one.last_stable_offset, one.high_watermark) == (0, 1)
    assert one.read(0, MANY, RC, at_least_one=True).records is None
    files.settle()
    assert one.last_stable_offset == one.high_watermark == 2


def test_a_reader_of_the_uncommitted_gets_no_list_of_the_aborted() -> None:
    one = partition()
    send(one, 7, 0)
    mark(one, 7, committed=False)
    assert one.read(0, MANY, RU, at_least_one=True).aborted is None
    assert one.read(2, MANY, RC, at_least_one=True).aborted == []


def test_L4_L5_L14_small_fetches_through_aborted_transactions_in_many_segments() -> None:
    one = partition(segment_bytes=400, index_interval_bytes=0)
    expected = []
    for number in range(40):
        producer_id = number % 4
        data = build_batch(
            [record._replace(value=b"%d" % number) for record in records(1)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number // 4,
            is_transactional=True,
        )
        one.append(data, now_ms=NOW_MS)
        if producer_id == 0:
            expected.append(b"%d" % number)
    for producer_id in range(4):
        mark(one, producer_id, committed=producer_id == 0)
    assert len(one.log.segments) > 5
    for max_bytes in (1, 100, 300, MANY):
        assert read_values(one, RC, max_bytes) == expected
    whole = read_values(one, RU)
    assert whole == [b"%d" % number for number in range(40)]


def test_a_fetch_lists_the_aborted_transactions_of_what_it_carries_only() -> None:
    one = partition(index_interval_bytes=0)
    for number in range(50):
        send(one, number, 0)
        mark(one, number, committed=False)
    read = one.read(0, 1, RC, at_least_one=True)
    assert read.aborted is not None
    assert [row.producer_id for row in read.aborted][:2] in ([0], [0, 1])
    assert len(read.aborted) <= 2


def test_L9_records_of_an_open_transaction_are_deleted_and_its_abort_still_comes() -> None:
    one = partition()
    send(one, 7, 0, 4)
    one.append(batch(2), now_ms=NOW_MS)
    assert one.delete_records_before(5, NOW_MS) == 5
    assert one.last_stable_offset == one.log.log_start_offset == 5
    mark(one, 7, committed=False)
    assert one.last_stable_offset == one.high_watermark == 7


@pytest.mark.parametrize("offset", [-1, 4])
def test_delete_records_goes_no_further_than_the_high_watermark(offset: int) -> None:
    one = partition()
    one.append(batch(3), now_ms=NOW_MS)
    code = refusal(lambda: one.delete_records_before(offset, NOW_MS))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation", [RC, RU])
@pytest.mark.parametrize("offset", [0, 1, 4, -1])
def test_an_offset_that_is_not_in_the_log(offset: int, isolation: Isolation) -> None:
    one = partition()
    one.append(batch(3), now_ms=NOW_MS)
    one.delete_records_before(2, NOW_MS)
    code = refusal(lambda: one.read(offset, MANY, isolation, at_least_one=True))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_disk_that_cannot_be_read_is_a_storage_error() -> None:
    files = MemoryFiles()
    one = partition(files)
    one.append(batch(3), now_ms=NOW_MS)
    files.fail_reads(".log")
    read = one.read(0, MANY, RU, at_least_one=True)
    assert read.records is not None
    with pytest.raises(StorageError):
        read.records.read()


# --- markers


def test_M2_M3_M4_a_stale_marker_changes_nothing() -> None:
    one = partition()
    send(one, 7, 0, epoch=3)
    mark(one, 8, coordinator_epoch=5)
    end = one.log.log_end_offset
    assert refusal(lambda: mark(one, 7, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: mark(one, 7, epoch=3, version=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    fenced = refusal(lambda: mark(one, 8, coordinator_epoch=4))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (one.log.log_end_offset, one.last_stable_offset) == (end, 0)
    mark(one, 7, epoch=3)
    mark(one, 8, coordinator_epoch=5)
    assert one.last_stable_offset == one.high_watermark


def test_R15_a_marker_that_comes_twice_ends_nothing_twice() -> None:
    one = partition()
    send(one, 7, 0)
    for _ in range(2):
        mark(one, 7, epoch=1, committed=False, version=2)
    assert len(one.log.aborted_transactions(0, 10)) == 1
    assert one.last_stable_offset == one.high_watermark == 3


def test_R16_a_marker_for_a_producer_that_wrote_nothing_here() -> None:
    one = partition()
    mark(one, 7, coordinator_epoch=4)
    entry = one.log.producers.entry(7)
    assert entry is not None
    assert (entry.coordinator_epoch, entry.current_txn_first_offset) == (4, -1)
    assert one.last_stable_offset == 1


def test_Z15_a_batch_outside_of_the_producers_open_transaction() -> None:
    one = partition()
    send(one, 7, 0)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=1)
    code = refusal(lambda: one.append(data, now_ms=NOW_MS))
    assert code is ErrorCode.INVALID_TXN_STATE
    assert one.log.log_end_offset == 1


def test_a_coordinators_batch_needs_no_sequence() -> None:
    one = partition()
    for _ in range(2):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        one.append(data, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert one.log.log_end_offset == 2


# --- guards


def test_R12_M19_a_guard_is_gone_with_the_transaction_it_was_made_in() -> None:
    one = partition()
    guard = one.begin_verification(7)
    one.check_guard(7, guard)
    mark(one, 7)  # the transaction that was asked about ends,
    another = one.begin_verification(7)  # and the next one is asked about
    assert refusal(lambda: one.check_guard(7, guard)) is ErrorCode.TRANSACTION_ABORTABLE
    one.check_guard(7, another)


def test_a_marker_that_is_refused_takes_no_guard_away() -> None:
    one = partition()
    mark(one, 7, epoch=3)
    guard = one.begin_verification(7)
    assert refusal(lambda: mark(one, 7, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    one.check_guard(7, guard)


def test_two_that_ask_at_once_share_a_guard_and_none_is_left_behind() -> None:
    one = partition()
    first, second = one.begin_verification(7), one.begin_verification(7)
    assert first is second
    one.end_verification(7, first)
    one.check_guard(7, second)
    one.end_verification(7, second)
    assert len(one.guards) == 0
    stale = one.begin_verification(7)
    mark(one, 7)
    fresh = one.begin_verification(7)
    one.end_verification(7, stale)
    one.check_guard(7, fresh)


def test_an_open_transaction_is_that_of_this_epoch() -> None:
    one = partition()
    assert not one.has_open_transaction(7, 0)
    send(one, 7, 0)
    assert one.has_open_transaction(7, 0)
    assert not one.has_open_transaction(7, 1)
    mark(one, 7)
    assert not one.has_open_transaction(7, 0)
