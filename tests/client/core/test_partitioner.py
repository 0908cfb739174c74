"""Records go to the partitions that Kafka's Java client would choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.partitioner import Partitioner, murmur2, partition_for_key
from oncelog_client.values import PartitionInfo

# From UtilsTest.testMurmur2 of Kafka's Java client, with its ints as unsigned numbers.
JAVA_HASHES = {
    b"21": -973932308 & 0xFFFFFFFF,
    b"foobar": -790332482 & 0xFFFFFFFF,
    b"a-little-bit-long-string": -985981536 & 0xFFFFFFFF,
    b"a-little-bit-longer-string": -1486304829 & 0xFFFFFFFF,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971 & 0xFFFFFFFF,
    b"abc": 479470107,
}


def drawing(*numbers: int) -> Callable[[int], int]:
    """Return a source of randomness that returns these numbers."""
    draws = iter(numbers)
    return lambda _: next(draws)


def partitions(count: int, *offline: int) -> list[PartitionInfo]:
    """Return the partitions of a topic, all with a leader except those of `offline`."""
    return [PartitionInfo("t", n, None if n in offline else 1) for n in range(count)]


@pytest.mark.parametrize("key", JAVA_HASHES)
def test_the_hash_is_javas(key: bytes) -> None:
    assert murmur2(key) == JAVA_HASHES[key]


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_always_has_the_same_existing_partition(key: bytes, count: int) -> None:
    chosen = partition_for_key(key, count)
    assert 0 <= chosen < count
    for offline in ((), (chosen,)):
        infos = partitions(count, *offline)
        assert chosen == Partitioner(16384, lambda n: 0).partition("t", key, infos)


def give(
    partitioner: Partitioner,
    size: int,
    queued: dict[int, int],
    *offline: int,
    closed: bool = False,
) -> int:
    """Choose a partition of three for a record without a key, and count the record as buffered
    there."""
    chosen = partitioner.partition("t", None, partitions(3, *offline))
    partitioner.buffered(
        "t",
        size,
        partitions=partitions(3, *offline),
        queued=lambda number: queued.get(number, 0),
        batch_closed=closed,
    )
    return chosen


def test_records_without_a_key_stick_until_a_batch_is_full() -> None:
    draws = iter([1, 0, 2])
    partitioner = Partitioner(100, lambda n: next(draws))
    chosen = [give(partitioner, 40, {}, closed=number == 2) for number in range(4)]
    assert chosen == [1, 1, 1, 0]


def test_the_sticky_partition_changes_after_twice_the_batch_size() -> None:
    draws = iter([2, 0])
    partitioner = Partitioner(100, lambda n: next(draws))
    chosen = [give(partitioner, 50, {}, closed=False) for _ in range(5)]
    assert chosen == [2, 2, 2, 2, 0]


def test_a_partition_with_a_long_queue_is_chosen_less_often() -> None:
    # The weights are 1, 5, 5: the longest queue keeps a small weight and is sometimes chosen.
    seen: Counter[int] = Counter()
    for randomness in range(11):
        partitioner = Partitioner(1, drawing(0, randomness))
        give(partitioner, 2, {0: 4}, closed=True)
        seen[partitioner.partition("t", None, partitions(3))] += 1
    assert seen == {0: 1, 1: 5, 2: 5}


def test_the_partition_is_drawn_again_if_the_topic_has_fewer_partitions() -> None:
    draws = iter([4, 1])
    partitioner = Partitioner(100, lambda n: next(draws))
    assert partitioner.partition("t", None, partitions(5)) == 4
    assert partitioner.partition("t", None, partitions(2)) == 1


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    """As in BuiltInPartitioner of Kafka, also for the first record of a topic."""
    for first in range(2):
        partitioner = Partitioner(100, drawing(first, 0, 1, 0, 1))
        assert {give(partitioner, 60, {}, 1, closed=True) for _ in range(9)} == {0, 2}


def test_the_sticky_partition_changes_at_once_when_its_leader_is_lost() -> None:
    partitioner = Partitioner(100, lambda n: 0)
    assert give(partitioner, 10, {}) == 0
    assert give(partitioner, 10, {}, 0) == 1
    assert give(partitioner, 10, {}) == 1


def test_all_partitions_are_candidates_if_none_has_a_leader() -> None:
    partitioner = Partitioner(10, drawing(2, 1))
    chosen = [give(partitioner, 10, {}, 0, 1, 2, closed=number == 1) for number in range(3)]
    assert chosen == [2, 2, 1]
