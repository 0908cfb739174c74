"""Measures how long the loading of an internal topic's partitions takes (Kafka's
partition-load-time)."""

from __future__ import annotations

import msgspec


class LoadTimes(msgspec.Struct):
    """The number, sum and maximum of the load times (ms), since the start of the broker."""

    count: int = 0
    total_ms: int = 0
    longest_ms: int = 0

    def add(self, took_ms: int) -> None:
        self.count += 1
        self.total_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0
