"""The consumer returns fetched records once and in order, and its position follows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.fetched import FetchedPartition, FetchedRecords
from oncelog_client.core.subscription import Subscription
from oncelog_client.errors import KafkaError
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer(*partitions: TopicPartition) -> tuple[Subscription, FetchedRecords]:
    subscription = Subscription()
    subscription.assign(partitions)
    for partition in partitions:
        subscription[partition].jump(0)
    return subscription, FetchedRecords(subscription)


def batch(base: int, count: int) -> bytearray:
    return build_batch([NewRecord(base + n, b"k", b"v") for n in range(count)], base_offset=base)


def answer(
    subscription: Subscription, partition: TopicPartition, offset: int, data: bytes | bytearray
) -> FetchedPartition:
    return FetchedPartition(
        partition,
        subscription[partition].jumps,
        offset,
        data,
        (),
        read_committed=False,
        max_batch_bytes=1 << 20,
        check_crcs=True,
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 7))
def test_each_record_is_returned_once_whatever_the_size_of_a_poll(
    sizes: list[int], limit: int
) -> None:
    subscription, fetched = consumer(ONE)
    data, base = bytearray(), 0
    for size in sizes:
        data += batch(base, size)
        base += size
    fetched.add(answer(subscription, ONE, 0, data))
    assert fetched.next_fetch(subscription[ONE]) == (base, -1)
    seen = []
    while records := fetched.take(limit):
        assert len(records) <= limit
        seen += [record.offset for record in records]
        assert subscription[ONE].position == seen[-1] + 1
    assert seen == list(range(base))
    assert fetched.readable_bytes() == 0


def test_responses_for_an_earlier_position_are_dropped() -> None:
    subscription, fetched = consumer(ONE)
    late = answer(subscription, ONE, 0, batch(0, 2))
    fetched.add(answer(subscription, ONE, 0, batch(0, 2)))
    subscription[ONE].jump(1)
    fetched.add(late)
    assert fetched.take(10) == []
    fetched.add(answer(subscription, ONE, 1, batch(0, 2)))
    assert [record.offset for record in fetched.take(10)] == [1]


def test_paused_partitions_keep_what_was_fetched_until_resumed() -> None:
    subscription, fetched = consumer(ONE, TWO)
    fetched.add(answer(subscription, ONE, 0, batch(0, 1)))
    fetched.add(answer(subscription, TWO, 0, batch(0, 1)))
    both = fetched.readable_bytes()
    subscription[ONE].paused = True
    assert fetched.readable_bytes() == both / 2
    assert [record.partition for record in fetched.take(10)] == [1]
    assert fetched.count(subscription[ONE]) == 1
    subscription[ONE].paused = False
    assert [record.partition for record in fetched.take(10)] == [0]


def test_records_of_revoked_partitions_are_dropped() -> None:
    subscription, fetched = consumer(ONE, TWO)
    fetched.add(answer(subscription, ONE, 0, batch(0, 1)))
    subscription.set_partitions([TWO])
    assert fetched.take(10) == []
    assert fetched.readable_bytes() == 0


def test_a_broken_batch_raises_after_the_good_batches_were_returned() -> None:
    subscription, fetched = consumer(ONE)
    data = batch(0, 2) + batch(2, 2)
    data[-1] ^= 1
    fetched.add(answer(subscription, ONE, 0, data))
    assert [record.offset for record in fetched.take(10)] == [0, 1]
    fetched.add(answer(subscription, ONE, 2, data[len(batch(0, 2)) :]))
    with pytest.raises(KafkaError, match="t-0 at 2") as caught:
        fetched.take(10)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert subscription[ONE].position == 2


def test_no_record_after_a_broken_batch_is_returned_even_if_fetched_ahead() -> None:
    """A former defect: the consumer skipped the broken batch, returned the records after it that
    were fetched ahead, and silently moved its position past the gap."""
    subscription, fetched = consumer(ONE)
    broken = batch(2, 2)
    broken[-1] ^= 1
    late = answer(subscription, ONE, 6, batch(6, 2))
    fetched.add(answer(subscription, ONE, 0, batch(0, 2) + broken))
    fetched.add(answer(subscription, ONE, 4, batch(4, 2)))
    assert [record.offset for record in fetched.take(10)] == [0, 1]
    fetched.add(late)
    for _ in range(3):
        with pytest.raises(KafkaError, match="t-0 at 2"):
            fetched.take(10)
        assert fetched.take(10) == []
        assert fetched.next_fetch(subscription[ONE]) == (2, -1)
        fetched.add(answer(subscription, ONE, 2, broken + batch(4, 2)))
    subscription[ONE].jump(4)
    fetched.add(answer(subscription, ONE, 4, batch(4, 2)))
    assert [record.offset for record in fetched.take(10)] == [4, 5]
    assert fetched.readable_bytes() == 0


def test_a_broken_batch_raises_at_the_next_poll_even_if_other_partitions_have_records() -> None:
    subscription, fetched = consumer(ONE, TWO)
    broken = batch(0, 2)
    broken[-1] ^= 1
    fetched.add(answer(subscription, TWO, 0, batch(0, 1)))
    fetched.add(answer(subscription, ONE, 0, broken))
    fetched.add(answer(subscription, TWO, 1, batch(1, 1)))
    assert [record.partition for record in fetched.take(10)] == [1]
    with pytest.raises(KafkaError, match="t-0 at 0"):
        fetched.take(10)
    assert [record.partition for record in fetched.take(10)] == [1]


def test_a_broken_batch_before_the_new_position_does_not_raise() -> None:
    subscription, fetched = consumer(ONE, TWO)
    broken = batch(0, 2)
    broken[-1] ^= 1
    fetched.add(answer(subscription, TWO, 0, batch(0, 1)))
    fetched.add(answer(subscription, ONE, 0, broken))
    assert [record.partition for record in fetched.take(10)] == [1]
    subscription[ONE].jump(2)
    assert fetched.take(10) == []


def test_bytes_that_are_no_batch_raise_after_the_good_batches() -> None:
    subscription, fetched = consumer(ONE)
    nonsense = batch(2, 1)
    nonsense[16] = 9  # the format's version
    part = answer(subscription, ONE, 0, batch(0, 2) + nonsense)
    assert part.end_offset == 2
    fetched.add(part)
    assert [record.offset for record in fetched.take(10)] == [0, 1]
    with pytest.raises(KafkaError) as caught:
        fetched.take(10)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
