"""A consumer counts the uncommitted records that it has returned. Its count equals the number of
uncommitted records in the log (KIP-98)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.fetched import FetchedPartition, FetchedRecords
from oncelog_client.core.subscription import Subscription
from oncelog_client.core.uncommitted import UncommittedRecords
from oncelog_client.values import TopicPartition
from tests.client.core.test_isolation import STEPS, Log, build

PARTITION = TopicPartition("t", 0)


def poll_all(log: Log, uncommitted: UncommittedRecords, limit: int, *, read_committed: bool) -> int:
    """Read a log with polls of at most `limit` records. Return the number of records that were
    read."""
    subscription = Subscription()
    subscription.assign([PARTITION])
    subscription[PARTITION].jump(0)
    fetched = FetchedRecords(subscription)
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
    count = 0
    while records := fetched.take(limit):
        count += len(records)
    return count


@given(STEPS, st.booleans(), st.integers(1, 7), st.integers(0, 60))
def test_records_of_open_and_aborted_transactions_below_the_end_are_counted(
    steps: list[tuple[str, int, int]], is_decided: bool, limit: int, end: int
) -> None:
    log = build(steps, close=is_decided)
    uncommitted = UncommittedRecords()
    uncommitted.ends = {PARTITION: end}
    assert poll_all(log, uncommitted, limit, read_committed=False) == len(log.all_data)
    expected = {offset for offset in log.all_data - log.committed if offset < end}
    assert uncommitted.count == len(expected)


@given(STEPS, st.integers(1, 7))
def test_a_read_committed_consumer_returns_no_uncommitted_record(
    steps: list[tuple[str, int, int]], limit: int
) -> None:
    log = build(steps)
    uncommitted = UncommittedRecords()
    assert poll_all(log, uncommitted, limit, read_committed=True) == len(log.committed)
    assert uncommitted.count == 0
