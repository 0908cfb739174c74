"""A consumer counts the uncommitted records that it has returned. Its count equals the number of
uncommitted records in the log (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.fetched import FetchedPartition, FetchedRecords
from oncelog_client.core.subscription import Subscription
from oncelog_client.core.uncommitted import UncommittedRecords
from oncelog_client.values import TopicPartition
from tests.client.core.test_isolation import STEPS, Log, build

PARTITION = TopicPartition("t", 0)


def fetched_log(
    log: Log,
    new_counter: Callable[[FetchedRecords], UncommittedRecords],
    *,
    read_committed: bool = False,
) -> tuple[FetchedRecords, UncommittedRecords]:
    """Return the fetched log, with a counter of what is taken from it."""
    subscription = Subscription()
    subscription.assign([PARTITION])
    subscription[PARTITION].jump(0)
    fetched = FetchedRecords(subscription)
    uncommitted = new_counter(fetched)
    fetched.add(
        FetchedPartition(
            PARTITION,
            subscription[PARTITION].jumps,
            0,
            log.data,
            log.aborted if read_committed else (),
            read_committed=read_committed,
            max_batch_bytes=1 << 20,
            check_crcs=True,
            uncommitted=uncommitted,
        )
    )
    return fetched, uncommitted


def take_all(fetched: FetchedRecords, limit: int) -> int:
    """Take all records, at most `limit` at once. Return their number."""
    return sum(map(len, iter(lambda: fetched.take(limit), [])))


@given(STEPS, st.booleans(), st.integers(1, 7), st.integers(0, 60))
def test_records_of_open_and_aborted_transactions_below_the_end_are_counted(
    steps: list[tuple[str, int, int]], is_decided: bool, limit: int, end: int
) -> None:
    log = build(steps, close=is_decided)
    fetched, uncommitted = fetched_log(log, lambda _: UncommittedRecords(stable_offset=lambda _: 0))
    uncommitted.ends = {PARTITION: end}
    assert take_all(fetched, limit) == len(log.all_data)
    still_open = {offset for offsets in log.written.values() for offset in offsets if offset < end}
    expected = {offset for offset in log.all_data - log.committed if offset < end}
    assert uncommitted.count() == (len(expected - still_open), len(still_open))


@given(STEPS, st.booleans(), st.integers(0, 40))
def test_a_transaction_that_ends_behind_the_returned_records_is_no_open_transaction(
    steps: list[tuple[str, int, int]], is_decided: bool, taken: int
) -> None:
    """The markers of records that were fetched together tell aborted from committed records."""
    log = build(steps, close=is_decided)
    stable = min(log.open.values(), default=log.next_offset)
    fetched, uncommitted = fetched_log(
        log, lambda fetched: UncommittedRecords(fetched.markers, lambda _: stable)
    )
    returned = {record.offset for record in fetched.take(taken)} if taken else set()
    still_open = {offset for offsets in log.written.values() for offset in offsets}
    expected = returned - log.committed
    assert uncommitted.count() == (len(expected - still_open), len(expected & still_open))


def test_records_of_an_ended_transaction_may_be_committed_until_its_marker_is_fetched() -> None:
    log = build([("transactional", 1, 3)], close=False)
    fetched, uncommitted = fetched_log(
        log, lambda fetched: UncommittedRecords(fetched.markers, lambda _: 9)
    )
    assert take_all(fetched, 10) == 3
    assert uncommitted.count() == (0, 0)


def test_records_of_a_partition_that_was_taken_away_are_not_counted_as_open() -> None:
    log = build([("transactional", 1, 3)], close=False)
    fetched, uncommitted = fetched_log(log, lambda fetched: UncommittedRecords(fetched.markers))
    assert take_all(fetched, 10) == 3
    assert uncommitted.count() == (0, 0)


@given(STEPS, st.integers(1, 7))
def test_a_read_committed_consumer_returns_no_uncommitted_record(
    steps: list[tuple[str, int, int]], limit: int
) -> None:
    log = build(steps)
    fetched, uncommitted = fetched_log(log, lambda _: UncommittedRecords(), read_committed=True)
    assert take_all(fetched, limit) == len(log.committed)
    assert uncommitted.count() == (0, 0)
