"""Deletion of topics: its error codes, and a deletion that was computed from a stale image. A
deletion leaves no record behind."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.partition_additions import NewPartitions, create_partitions
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


def test_a_deletion_from_a_stale_image_is_refused_and_a_current_one_leaves_no_record() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.create("orders", 3, 2)
    writes, refused = delete_topics(cluster.image, SETTINGS, ["none"])
    assert (writes, refused["none"].code) == ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    writes, refused = delete_topics(cluster.image, Settings(delete_topic_enable=False), ["orders"])
    assert (writes, refused["orders"].code) == ([], ErrorCode.TOPIC_DELETION_DISABLED)
    stale = delete_topics(cluster.image, SETTINGS, ["orders"])[0]
    assert cluster.apply(create_partitions(cluster.image, SETTINGS, NewPartitions("orders", 4)))
    assert not cluster.apply(stale)
    assert cluster.apply(delete_topics(cluster.image, SETTINGS, ["orders"])[0])
    assert "orders" not in cluster.image.topics
    assert not cluster.image.orphans()


def test_a_topic_with_another_id_than_the_checked_topic_is_unknown() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.create("orders", 3, 2)
    known = cluster.image.topics["orders"].id
    writes, refused = delete_topics(
        cluster.image, SETTINGS, ["orders"], None, {"orders": bytes(16)}
    )
    assert (writes, refused["orders"].code) == ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    writes, refused = delete_topics(cluster.image, SETTINGS, ["orders"], None, {"orders": known})
    assert cluster.apply(writes)
    assert refused == {}
