"""The internal topics that a broker creates."""

from __future__ import annotations

import pytest

from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.cluster.topics import create_topic
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
@pytest.mark.parametrize("brokers", [1, 2, 5])
def test_internal_topics_need_no_settings(name: str, brokers: int) -> None:
    cluster = Cluster(range(1, brokers + 1))
    new = internal_topic(cluster.image, SETTINGS, name)
    created, writes = create_topic(cluster.image, SETTINGS, new, cluster.new_id())
    assert cluster.apply(writes)
    assert (created.partitions, created.replication_factor) == (50, min(3, brokers))
    assert created.settings["cleanup.policy"] == "compact"
    assert created.settings["segment.bytes"] == "104857600"
