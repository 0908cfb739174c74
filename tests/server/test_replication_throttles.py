"""The throttles follow the dynamic settings of the broker and the settings of topics."""

from __future__ import annotations

from oncelog_server.cluster.broker_alterations import alter_broker
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.store import Write
from oncelog_server.cluster.topic_alterations import alter_topic
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.dynamic_settings import DynamicSettings
from oncelog_server.replication_throttles import ReplicationThrottles
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.cluster.clusters import Cluster

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"


class Broker:
    """Broker 2 of a cluster, with its throttles."""

    def __init__(self) -> None:
        self.cluster = Cluster(brokers=(1, 2))
        self.cluster.create("t", 3, 2)
        self.settings = Settings(node_id=2).running()
        self.dynamic = DynamicSettings(self.settings, self.cluster.image)
        self.throttles = self.new_throttles()

    def new_throttles(self) -> ReplicationThrottles:
        return ReplicationThrottles(self.settings, lambda: 0, self.cluster.image)

    def apply(self, writes: list[Write]) -> None:
        old = self.cluster.image
        assert self.cluster.apply(writes)
        new = self.cluster.image
        delta = ImageDelta.between(old, new)
        self.dynamic.follow(old, new, delta)
        self.throttles.follow(old, new, delta)

    def alter(self, name: str, **own: int) -> None:
        texts = {key.replace("_", "."): str(value) for key, value in own.items()}
        self.apply(alter_broker(self.cluster.image, self.settings, name, texts))

    def alter_topic(self, own: dict[str, str]) -> None:
        self.apply(alter_topic(self.cluster.image, self.settings, "t", own))

    def throttled(self) -> list[tuple[int | None, list[int]]]:
        """Return the rate and the throttled partitions, of the leader's side and the follower's."""
        return [
            (
                quota.limit,
                [number for number in range(3) if quota.concerns(TopicPartition("t", number))],
            )
            for quota in (self.throttles.leader, self.throttles.follower)
        ]


def test_the_throttles_follow_the_metadata() -> None:
    broker = Broker()
    assert broker.throttled() == [(None, []), (None, [])]
    broker.alter("1", leader_replication_throttled_rate=5)
    assert broker.throttled() == [(None, []), (None, [])]
    broker.alter("", leader_replication_throttled_rate=7, follower_replication_throttled_rate=8)
    broker.alter("2", leader_replication_throttled_rate=9)
    broker.alter_topic({LEADERS: "0:2,1:1,2:2", FOLLOWERS: "*"})
    expected = [(9, [0, 2]), (8, [0, 1, 2])]
    assert broker.throttled() == expected
    broker.throttles = broker.new_throttles()
    assert broker.throttled() == expected
    broker.alter_topic({FOLLOWERS: "1:2"})
    assert broker.throttled() == [(9, []), (8, [1])]
    broker.alter("2")
    broker.alter("")
    assert broker.throttled() == [(None, []), (None, [1])]


def test_a_new_topic_of_the_name_is_not_throttled() -> None:
    broker = Broker()
    broker.alter_topic({FOLLOWERS: "*"})
    writes, _ = delete_topics(broker.cluster.image, broker.settings, ["t"], None)
    broker.apply(writes)
    broker.cluster.create("t", 3, 2)
    assert broker.throttled() == [(None, []), (None, [])]
