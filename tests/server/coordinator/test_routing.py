"""The partition of a group id or transactional id, from the hash that Java computes."""

from __future__ import annotations

import pytest

from oncelog_server.coordinator.routing import java_string_hash, partition_for


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
