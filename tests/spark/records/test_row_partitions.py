"""A column of keys gets the partitions that the client's own partitioner gives to these keys. Rows
without keys go to another partition after each full batch."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.partitioner import murmur2, partition_for_key
from oncelog_client.spark.records.row_partitions import (
    StickyPartitions,
    murmur2_of_all,
    partitions_for_keys,
)

INT64 = pa.int64()


@given(st.lists(st.binary(max_size=30), max_size=60), st.integers(1, 12))
def test_keys_of_any_length_have_the_hash_of_kafkas_partitioner(
    keys: list[bytes], count: int
) -> None:
    # The vectorized code runs only if more than a few keys have the same length.
    keys = [key for key in keys for _ in range(10)]
    column = pa.array(keys, pa.binary())
    assert murmur2_of_all(column).to_pylist() == [murmur2(key) for key in keys]
    found = partitions_for_keys(column, pa.scalar(count, INT64)).to_pylist()
    assert found == [partition_for_key(key, count) for key in keys]


def test_each_row_may_name_a_topic_with_another_number_of_partitions() -> None:
    keys = [b"%d" % number for number in range(100)]
    counts = [1 + number % 7 for number in range(100)]
    found = partitions_for_keys(pa.array(keys, pa.binary()), pa.array(counts, INT64))
    assert found.to_pylist() == [
        partition_for_key(*pair) for pair in zip(keys, counts, strict=True)
    ]


def in_turn(count: int) -> int:
    return 0


def test_rows_without_a_key_change_their_partition_after_a_full_batch() -> None:
    sticky = StickyPartitions(100, in_turn)
    sizes = pa.array([40] * 8, INT64)
    # After a batch of three rows, the next row has another partition.
    assert sticky.partitions("t", sizes, 3).to_pylist() == [0, 0, 0, 1, 1, 1, 0, 0]
    assert sticky.partitions("t", sizes, 3).to_pylist() == [0, 1, 1, 1, 0, 0, 0, 1]
    assert sticky.partitions("other", sizes.slice(0, 2), 3).to_pylist() == [0, 0]


def test_rows_of_size_0_do_not_change_the_sticky_partition() -> None:
    sticky = StickyPartitions(100, in_turn)
    sizes = pa.array([60, 0, 0, 0, 39, 1, 0], INT64)
    assert sticky.partitions("t", sizes, 2).to_pylist() == [0, 0, 0, 0, 0, 0, 1]


def test_rows_stay_in_the_only_partition_of_a_topic() -> None:
    sticky = StickyPartitions(10, in_turn)
    assert sticky.partitions("t", pa.array([20, 20], INT64), 1).to_pylist() == [0, 0]


def test_rows_leave_an_offline_partition_before_the_batch_is_full() -> None:
    sticky = StickyPartitions(100, in_turn)
    sizes = pa.array([40] * 4, INT64)
    assert sticky.partitions("t", sizes.slice(0, 1), 3).to_pylist() == [0]
    assert sticky.partitions("t", sizes, 3, {0}).to_pylist() == [1, 1, 1, 2]
    assert sticky.partitions("t", sizes, 3, {0, 2}).to_pylist() == [1, 1, 1, 1]
    assert sticky.partitions("t", sizes, 3).to_pylist() == [1, 1, 0, 0]


def test_rows_without_a_key_wait_if_every_partition_is_offline() -> None:
    sticky = StickyPartitions(100, in_turn)
    sizes = pa.array([60] * 4, INT64)
    assert sticky.partitions("t", sizes, 2, {0, 1}).to_pylist() == [0, 0, 1, 1]


@given(st.lists(st.integers(0, 50), max_size=50), st.integers(1, 5), st.randoms())
def test_every_row_has_a_partition_of_its_topic(sizes: list[int], count: int, draw: Random) -> None:
    sticky = StickyPartitions(60, draw.randrange)
    found = sticky.partitions("t", pa.array(sizes, INT64), count).to_pylist()
    assert len(found) == len(sizes)
    assert all(0 <= partition < count for partition in found)
