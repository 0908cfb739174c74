"""The feeder of the copy loop has one value in flight for each partition."""

from __future__ import annotations

from typing import NamedTuple

from tests.torture.cluster.loads import TimedFeeder
from tests.torture.workload import PARTITIONS


class Delivered(NamedTuple):
    number: int

    def partition(self) -> int:
        return self.number

    def value(self) -> bytes:
        return b"0000004"


def test_a_partition_is_used_again_only_when_its_value_is_confirmed() -> None:
    feeder = TimedFeeder({"bootstrap.servers": "127.0.0.1:1"})
    assert [feeder._partition() for _ in range(PARTITIONS)] == [*range(PARTITIONS)]
    assert feeder._partition() is None
    feeder._delivered(None, Delivered(4))
    assert [feeder._partition(), feeder._partition()] == [4, None]
