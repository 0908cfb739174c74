"""The brokers that were fenced a short time ago.

Metadata still lists them, so that a client sees the new leaders in a response that also has the old
one. librdkafka (since 2.10) removes a broker that is not listed, and with it the partitions that
the same response moves from this broker to another one: it then finds the new leader only a second
later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.members import BrokerImage

# A client without a connection to its leader asks for the metadata about once a second.
LISTED_MS: Final = 5_000


class RecentlyFenced:
    """Follows the image. A broker that has moved its leaders before it stopped is not listed:
    clients have seen the new leaders."""

    def __init__(self, boottime_ms: Callable[[], int]) -> None:
        self._boottime_ms = boottime_ms
        # The broker, and the time until which it is listed.
        self._fenced: dict[int, tuple[BrokerImage, int]] = {}

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Note a change of the brokers."""
        if not delta.brokers_changed:
            return
        for broker_id in new.brokers.keys() & self._fenced.keys():
            del self._fenced[broker_id]
        until_ms = self._boottime_ms() + LISTED_MS
        for broker_id in old.brokers.keys() - new.brokers.keys() - old.draining.keys():
            self._fenced[broker_id] = old.brokers[broker_id], until_ms

    def brokers(self) -> Sequence[BrokerImage]:
        """Return the brokers that are still listed."""
        if not self._fenced:
            return ()
        now_ms = self._boottime_ms()
        self._fenced = {
            id: (broker, until_ms)
            for id, (broker, until_ms) in self._fenced.items()
            if now_ms < until_ms
        }
        return [broker for broker, _ in self._fenced.values()]
