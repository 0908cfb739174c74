"""The throttle of one side of replication (KIP-73): which partitions it concerns, and whether their
bytes exceed the rate. The rules are those of Kafka's ReplicationQuotaManager and SimpleRate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from oncelog_server.quotas.windows import Windows
from oncelog_server.topic_partition import TopicPartition

# Stands for all partitions of a topic.
EVERY: Final = None
_ALL: Final = "*"

# The throttled partitions of a topic.
Throttled = frozenset[int] | None


def throttled_partitions(entries: Iterable[str], broker_id: int) -> Throttled:
    """Return the partitions of a topic that are throttled on a broker.

    `entries` are the value of `leader.replication.throttled.replicas` or
    `follower.replication.throttled.replicas`: `*` for all, or `partition:broker`. An empty entry
    has no effect.
    """
    found = set()
    for entry in entries:
        if entry == _ALL:
            return EVERY
        if not entry:
            continue
        partition, _, broker = entry.partition(":")
        if int(broker) == broker_id:
            found.add(int(partition))
    return frozenset(found)


class ReplicationQuota:
    """Counts the bytes of throttled partitions. Times are milliseconds of a monotonic clock.

    `limit` is the rate in bytes per second, None without one.
    """

    def __init__(self, monotonic_ms: Callable[[], int], windows: Windows) -> None:
        self.limit: int | None = None
        self._monotonic_ms = monotonic_ms
        self._windows = windows
        self._topics: dict[str, Throttled] = {}
        # The start and the bytes of each window. A window begins with its first bytes.
        self._samples: deque[list[int]] = deque()

    @property
    def is_active(self) -> bool:
        """Return True if some partition is throttled."""
        return self.limit is not None and bool(self._topics)

    def throttle(self, topics: Mapping[str, Throttled]) -> None:
        """Set the throttled partitions of these topics. An empty set removes a topic."""
        for topic, partitions in topics.items():
            if partitions is EVERY or partitions:
                self._topics[topic] = partitions
            else:
                self._topics.pop(topic, None)

    def concerns(self, name: TopicPartition) -> bool:
        """Return True if the partition is throttled."""
        partitions = self._topics.get(name.topic, frozenset())
        return partitions is EVERY or name.partition in partitions

    def record(self, size: int) -> None:
        """Count bytes of throttled partitions."""
        now_ms = self._monotonic_ms()
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._windows.length_ms:
            samples.append([now_ms, 0])
            self._expire(now_ms)
        samples[-1][1] += size

    def is_exceeded(self) -> bool:
        """Return True if the bytes of the last windows exceed the rate."""
        return self.delay_ms() > 0

    def delay_ms(self) -> int:
        """Return the time until the rate is not exceeded any more, if no bytes are added; 0 if it
        is not exceeded. The time is at most that of all windows."""
        if self.limit is None:
            return 0
        now_ms = self._monotonic_ms()
        self._expire(now_ms)
        if not self._samples:
            return 0
        total = sum(size for _, size in self._samples)
        # The measured time begins with the oldest window, and is at least one window.
        elapsed_ms = max(now_ms - self._samples[0][0], self._windows.length_ms)
        if total * 1000 <= self.limit * elapsed_ms:
            return 0
        longest_ms = self._windows.expiry_ms
        if not self.limit:
            return longest_ms
        return min(-(-total * 1000 // self.limit) - elapsed_ms, longest_ms)

    def _expire(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0][0] >= self._windows.expiry_ms:
            samples.popleft()
