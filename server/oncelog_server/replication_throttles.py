"""The throttles of this broker's replication follow the metadata: the rates are dynamic settings of
brokers, the throttled replicas are settings of topics (KIP-73)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.quotas.replication import ReplicationQuota, Throttled, throttled_partitions
from oncelog_server.quotas.windows import Windows
from oncelog_server.settings.dynamic import FOLLOWER_RATE, LEADER_RATE, NO_THROTTLE, rate_of
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import Kind, parse_value
from oncelog_server.settings.topics import TOPIC_SETTINGS

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class ReplicationThrottles:
    """`leader` counts what this broker sends to followers, `follower` what it fetches. `settings`
    are those in force."""

    def __init__(
        self, settings: Settings, monotonic_ms: Callable[[], int], image: ClusterImage
    ) -> None:
        windows = Windows(
            settings.replication_quota_window_num,
            settings.replication_quota_window_size_seconds * 1000,
        )
        self._settings = settings
        self.leader = ReplicationQuota(monotonic_ms, windows)
        self.follower = ReplicationQuota(monotonic_ms, windows)
        self._limit()
        self._throttle(image.topics.values())

    def follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Apply the settings of a new image."""
        if new.configs is not old.configs:
            self._limit()
        for topic in delta.topics_deleted:
            for quota in (self.leader, self.follower):
                quota.throttle({topic.name: frozenset()})
        self._throttle((*delta.topics_created, *delta.settings_changed))

    def _limit(self) -> None:
        for quota, name in ((self.leader, LEADER_RATE), (self.follower, FOLLOWER_RATE)):
            rate = rate_of(self._settings, name)
            quota.limit = None if rate == NO_THROTTLE else rate

    def _throttle(self, topics: Iterable[TopicImage]) -> None:
        for topic in topics:
            for quota, name in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
                quota.throttle({topic.name: self._partitions(topic, name)})

    def _partitions(self, topic: TopicImage, name: str) -> Throttled:
        text = topic.settings.get(name)
        if not text:
            return frozenset()
        row = TOPIC_SETTINGS[name]
        assert row.kind is Kind.LIST
        entries = parse_value(row, text)
        assert isinstance(entries, tuple)
        return throttled_partitions(entries, self._settings.node_id)
