"""The time for which a leader lets the Fetch of a follower wait for records.

A follower has one Fetch in flight to each leader. If a broker becomes the leader of more
partitions, only the follower's next Fetch names them. The follower sends it after the end of the
parked Fetch. With Kafka's default of `replica.fetch.wait.max.ms`, acks=all would stand still for
500 ms after each move of a leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_server.partition.waiting import ParkedRequests

# A follower may see the metadata later than the leader. For this time after a new leadership, its
# fetches wait only briefly.
BRIEF_FOR_MS: Final = 1_000
BRIEF_WAIT_MS: Final = 20


class FollowerWaits:
    """The parked fetches of followers. `parked` has, for each Fetch, the function that ends the
    Fetch."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self.parked = ParkedRequests()
        self._monotonic_ms = monotonic_ms
        self._brief_until_ms = 0

    def shorten(self) -> None:
        """End the parked fetches, and let the next ones wait only briefly, because this broker has
        become the leader of more partitions."""
        self._brief_until_ms = self._monotonic_ms() + BRIEF_FOR_MS
        self.parked.wake_all()

    def limit(self, max_wait_ms: int) -> int:
        """Return how long a Fetch may wait. The Fetch itself allows `max_wait_ms`."""
        if self._monotonic_ms() >= self._brief_until_ms:
            return max_wait_ms
        return min(max_wait_ms, BRIEF_WAIT_MS)
