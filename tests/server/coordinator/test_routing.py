"""The partition of a group id or transactional id, from the hash that Java computes."""

from __future__ import annotations

import pytest

from oncelog_server.coordinator.routing import (
    java_string_hash,
    kafkas_partition_for,
    partition_for,
    routing_of,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("é", 233),
     ("\U0001f600", 1772899)],
)  # fmt: skip
def test_java_string_hash(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_id_myProducer_is_in_partition_10_of_50() -> None:
    assert partition_for("myProducer", 50) == 10


def test_the_smallest_hash_gives_no_negative_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_kafka_takes_the_absolute_value_of_the_hash() -> None:
    """`myProducer` is in partition 38 of 50 in Apache Kafka 4.3.1. The smallest hash has no
    absolute value in 32 bits, and Kafka takes 0."""
    assert kafkas_partition_for("myProducer", 50) == 38
    assert kafkas_partition_for("polygenelubricants", 50) == 0
    assert java_string_hash("a") > 0
    assert kafkas_partition_for("a", 50) == partition_for("a", 50)


def test_a_cluster_keeps_its_hash() -> None:
    assert routing_of(absolute_hash=True)("myProducer", 50) == 38
    assert routing_of(absolute_hash=False)("myProducer", 50) == 10
