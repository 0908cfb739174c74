"""Idempotence: the batches that a producer may append, and the response to a retry (scenarios
R1-R4, R17, E8; Kafka's ProducerStateManagerTest)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import thread_time

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_header
from oncelog_server.log.errors import AppendError
from oncelog_server.log.producers import BATCHES_KEPT, ProducerEntry, Producers
from oncelog_server.log.results import Origin
from tests.server.log.driver import NOW_MS, Driver, batch, delete_records_before, producers_of
from tests.server.resident import resident_growth

LAST_SEQUENCE = 2**31 - 1
EXPIRATION_MS = 86_400_000


def refused(append: Callable[[], object]) -> ErrorCode:
    with pytest.raises(AppendError) as error:
        append()
    return error.value.code


@pytest.fixture
def driver() -> Driver:
    return Driver()


def sent(driver: Driver, count: int = 7) -> Driver:
    """Append `count` batches of two records of producer 1."""
    for n in range(count):
        driver.send(1, n * 2, 2)
    return driver


@pytest.mark.parametrize("back", range(1, 6))
def test_r1_r2_a_retry_of_one_of_the_last_five_batches_gets_its_original_offsets(
    driver: Driver, back: int
) -> None:
    sent(driver)
    n = 7 - back
    answer = driver.send(1, n * 2, 2)
    assert answer.duplicate
    assert (answer.base_offset, answer.last_offset) == (n * 2, n * 2 + 1)
    assert driver.log.log_end_offset == 14


def test_r3_a_batch_before_the_last_five_is_out_of_order(driver: Driver) -> None:
    sent(driver)
    assert refused(lambda: driver.send(1, 2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert driver.log.log_end_offset == 14


def test_a_batch_that_overlaps_an_earlier_batch_is_out_of_order(driver: Driver) -> None:
    sent(driver)
    assert refused(lambda: driver.send(1, 12, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(lambda: driver.send(1, 13, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(lambda: driver.send(1, 12, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_r4_a_gap_is_out_of_order(driver: Driver) -> None:
    sent(driver)
    assert refused(lambda: driver.send(1, 15, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_r4_a_new_epoch_begins_at_sequence_0(driver: Driver) -> None:
    sent(driver)
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(lambda: driver.send(1, 14, 1, epoch=1)) == out_of_order
    assert not driver.send(1, 0, 1, epoch=1).duplicate
    assert driver.send(1, 0, 1, epoch=1).duplicate


def test_the_same_sequence_in_a_newer_epoch_is_a_new_batch(driver: Driver) -> None:
    driver.send(1, 0, 1)
    driver.plain()
    driver.send(1, 0, 1, epoch=1)
    assert driver.send(1, 0, 1, epoch=1).base_offset == 2
    driver.mark(1, epoch=2)
    assert driver.send(1, 0, 1, epoch=2).base_offset == 4


def test_an_older_epoch_is_fenced_even_for_a_retry(driver: Driver) -> None:
    sent(driver)
    driver.send(1, 0, 1, epoch=1)
    assert refused(lambda: driver.send(1, 12, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(lambda: driver.send(1, 14, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_x7_an_unknown_producer_may_begin_at_any_sequence(driver: Driver) -> None:
    """The producer's state may have expired, so its first batch may have any sequence number. The
    error UNKNOWN_PRODUCER_ID is obsolete."""
    assert not driver.send(1, 17, 2).duplicate
    assert driver.send(1, 17, 2).duplicate
    assert refused(lambda: driver.send(1, 17, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_e8_sequence_0_follows_the_highest_sequence(driver: Driver) -> None:
    driver.send(1, LAST_SEQUENCE - 1, 2)
    assert driver.send(1, 0, 1).base_offset == 2
    assert driver.send(1, LAST_SEQUENCE - 1, 2).duplicate
    assert driver.send(1, 0, 1).duplicate


def test_e8_a_sequence_may_wrap_inside_a_batch(driver: Driver) -> None:
    driver.send(1, LAST_SEQUENCE - 1, 5)
    assert driver.send(1, LAST_SEQUENCE - 1, 5).duplicate
    assert driver.send(1, 3, 2).base_offset == 5
    assert driver.send(1, LAST_SEQUENCE - 1, 5).duplicate
    driver.kill()
    assert driver.send(1, LAST_SEQUENCE - 1, 5).duplicate
    assert driver.send(1, 5, 1).base_offset == 7


def test_r17_after_a_restart_a_repeated_batch_is_never_appended_again(driver: Driver) -> None:
    """The snapshot has only the last batch of each producer. So after a restart only a retry of
    this batch gets its offset, and a retry of an earlier batch is refused."""
    sent(driver)
    driver.restart()
    assert driver.send(1, 12, 2).duplicate
    for n in range(2, 6):
        assert refused(partial(driver.send, 1, n * 2, 2)) == (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
    assert driver.log.log_end_offset == 14
    assert not driver.send(1, 14, 2).duplicate


def test_r10_r17_after_a_kill_the_last_five_batches_are_known_from_the_log(driver: Driver) -> None:
    sent(driver)
    driver.kill()
    assert all(driver.send(1, n * 2, 2).duplicate for n in range(2, 7))


def test_producers_do_not_affect_each_other(driver: Driver) -> None:
    driver.send(1, 0, 2)
    driver.send(2, 0, 3)
    driver.plain(2)
    assert driver.send(1, 2, 1).base_offset == 7
    assert driver.send(2, 0, 3).base_offset == 2


def test_a_refused_batch_leaves_no_trace(driver: Driver) -> None:
    sent(driver)
    before = producers_of(driver.log.producers)
    for append in (
        lambda: driver.send(1, 99, 1),
        lambda: driver.send(1, 5, 1, epoch=3),
        lambda: driver.send(2, -1, 1),
    ):
        refused(append)
    assert producers_of(driver.log.producers) == before
    assert driver.log.log_end_offset == 14


def test_records_of_coordinators_have_no_sequence(driver: Driver) -> None:
    def offsets() -> bytearray:
        return batch(1, producer_id=5, producer_epoch=2, is_transactional=True)

    driver.append(offsets(), Origin.COORDINATOR)
    driver.append(offsets(), Origin.COORDINATOR)
    assert driver.log.log_end_offset == 2
    entry = driver.log.producers.entry(5)
    assert entry is not None
    assert entry.current_txn_first_offset == 0
    assert entry.last_sequence == -1
    old = batch(1, producer_id=5, producer_epoch=1, is_transactional=True)
    assert refused(lambda: driver.append(old, Origin.COORDINATOR)) == (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )
    driver.restart()
    driver.append(offsets(), Origin.COORDINATOR)


@pytest.mark.parametrize("timestamp", [0, NOW_MS + 3_000_000])
def test_k5_x7_a_producer_expires_by_the_broker_s_clock_and_not_by_record_timestamps(
    driver: Driver, timestamp: int
) -> None:
    driver.send(1, 0, 1, timestamp=timestamp)
    driver.now_ms += EXPIRATION_MS - 1
    driver.log.producers.expire(driver.now_ms, EXPIRATION_MS)
    assert driver.send(1, 0, 1, timestamp=timestamp).duplicate
    driver.restart()
    driver.log.producers.expire(driver.now_ms, EXPIRATION_MS)
    assert driver.send(1, 0, 1, timestamp=timestamp).duplicate
    driver.now_ms += 1
    assert driver.log.producers.expire(driver.now_ms, EXPIRATION_MS) == 1
    assert len(driver.log.producers) == 0
    assert not driver.send(1, 5, 1).duplicate


def test_x7_x8_a_producer_with_an_open_transaction_never_expires(driver: Driver) -> None:
    driver.send(1, 0, 1, transactional=True)
    driver.send(2, 0, 1)
    driver.now_ms += 10 * EXPIRATION_MS
    assert driver.log.producers.expire(driver.now_ms, EXPIRATION_MS) == 1
    driver.restart()
    driver.now_ms += 10 * EXPIRATION_MS
    assert driver.log.producers.expire(driver.now_ms, EXPIRATION_MS) == 0
    assert driver.log.first_unstable_offset(2) == 0
    driver.mark(1, coordinator_epoch=3)
    # A marker also renews the producer's state, so that markers of an older coordinator are still
    # refused (KAFKA-9144).
    driver.now_ms += EXPIRATION_MS - 1
    assert driver.log.producers.expire(driver.now_ms, EXPIRATION_MS) == 0
    assert refused(lambda: driver.mark(1, coordinator_epoch=2)) == (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )


def test_x9_a_producer_is_known_after_its_records_are_deleted(driver: Driver) -> None:
    driver.send(1, 0, 2)
    driver.log.roll(driver.now_ms)
    driver.plain()
    delete_records_before(driver.log, 2, driver.now_ms)
    for life in (lambda: None, driver.restart, driver.kill):
        life()
        assert driver.log.segments[0].base_offset == 2
        answer = driver.send(1, 0, 2)
        assert answer.duplicate
        assert answer.base_offset == 0
    assert not driver.send(1, 2, 1).duplicate


def test_k3_a_clock_that_jumps_expires_no_producer(driver: Driver) -> None:
    sweep_ms = 600_000
    driver.send(1, 0, 1)
    driver.log.producers.expire(driver.now_ms, EXPIRATION_MS)
    driver.now_ms += 8 * EXPIRATION_MS
    assert driver.log.producers.expire(driver.now_ms, EXPIRATION_MS) == 0
    assert driver.send(1, 0, 1).duplicate
    expired_after = 0
    while not driver.log.producers.expire(driver.now_ms, EXPIRATION_MS):
        driver.now_ms += sweep_ms
        expired_after += sweep_ms
    assert abs(expired_after - EXPIRATION_MS) <= 3_600_000 + sweep_ms


def test_k2_k5_a_producer_expires_although_the_clock_was_set_back(driver: Driver) -> None:
    driver.now_ms += 100 * EXPIRATION_MS
    driver.send(1, 0, 1)
    driver.now_ms -= 100 * EXPIRATION_MS
    assert driver.log.producers.expire(driver.now_ms, EXPIRATION_MS) == 0
    expired_after = 0
    while not driver.log.producers.expire(driver.now_ms, EXPIRATION_MS):
        driver.now_ms += 600_000
        expired_after += 600_000
    assert expired_after <= EXPIRATION_MS


def test_h60_a_partition_refuses_producers_beyond_its_limit(
    driver: Driver,
) -> None:
    producers = driver.log.producers
    producers.max_ids = 3
    calls: list[str] = []
    producers.on_full = lambda: calls.append("full")
    for producer_id in range(3):
        driver.send(producer_id, 0, 1)
    assert calls == []
    with pytest.raises(AppendError, match=r"oncelog\.max\.producer\.ids\.per\.partition") as caught:
        driver.send(3, 0, 1)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION
    assert (driver.log.log_end_offset, len(producers)) == (3, 3), "a refused batch is not appended"
    assert calls == ["full"], "one call for each refused batch"
    assert driver.send(1, 1, 1).base_offset == 3, (
        "a producer with state in the partition may append"
    )
    driver.plain()
    # The limit does not apply to a coordinator's records, because coordinators have their own
    # limits, and not to markers, because each must be written.
    driver.append(
        batch(1, producer_id=9, producer_epoch=0, is_transactional=True), Origin.COORDINATOR
    )
    driver.mark(8)
    driver.now_ms += EXPIRATION_MS
    producers.expire(driver.now_ms, EXPIRATION_MS)
    assert driver.send(3, 0, 1).base_offset == 7, "expired producers make room for new ones"


def test_d10_the_expiry_of_a_hundred_thousand_producers_holds_up_no_request() -> None:
    # Measured twice: the shorter time counts, because a pause of the machine rarely occurs in both
    # measurements.
    slowest = max(map(min, *(seconds_of_sweeps() for _ in range(2))))
    assert slowest < 0.05, "a check of all producers takes about 10 ms on an idle machine"


def seconds_of_sweeps() -> list[float]:
    """Return the times of three sweeps, in s. A sweep checks all of 100,000 producers and removes
    the expired ones: none in the first sweep, half in the second, the rest in the third."""
    producers = Producers()
    producers.load(ProducerEntry(number, 0, updated_ms=number) for number in range(100_000))
    used = []
    gc.disable()  # garbage of earlier tests does not count
    try:
        for now_ms in (86_400_000 - 1, 86_400_000 + 50_000, 2 * 86_400_000):
            began = thread_time()
            producers.expire(now_ms, EXPIRATION_MS)
            used.append(thread_time() - began)
    finally:
        gc.enable()
    assert len(producers) == 0
    return used


def hundred_thousand_producers(batches: int) -> Producers:
    """Return 100,000 producers. Each has written `batches` batches, at its own times and
    offsets."""
    producers = Producers()
    header = read_header(batch(producer_id=0, producer_epoch=7, base_sequence=1_000))
    for offset in range(batches * 100_000):
        written = replace(
            header,
            producer_id=10_000 + offset % 100_000,
            base_sequence=1_000 + offset,
            max_timestamp=NOW_MS + offset,
        )
        producers.data_appended(written, 10**9 + offset, 0, 0, NOW_MS + offset)
    assert len(producers) == 100_000
    return producers


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(("batches", "most"), [(1, 1_024), (BATCHES_KEPT, 1_280)])
def test_d10_a_hundred_thousand_producers_take_a_kibibyte_each_or_little_more(
    batches: int, most: int
) -> None:
    """`most`: the limit in bytes of memory for each producer. A producer with five remembered
    batches may take a quarter more memory than a producer with a single batch."""
    growth = resident_growth(partial(hundred_thousand_producers, batches))
    assert growth / 100_000 < most
