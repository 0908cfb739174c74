"""A rolling restart by SIGTERM: each broker moves its leaders before it stops, so no client gives
an error to its application (section 2.1 of the cluster brief, scenario B30)."""

from __future__ import annotations

import logging
from collections import Counter

from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_client.admin import ElectionType
from oncelog_client.sync import Admin
from tests.cluster.reading import in_sync, values
from tests.cluster.steady_clients import (
    GroupConsumer,
    IdempotentProducer,
    OwnIdempotentProducer,
    OwnTransactionalProducer,
    SteadyClients,
    TransactionalProducer,
    Writing,
)
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

CALL_S = 30.0
TOPIC = "t"
PARTITIONS = 3
INTERNAL = ("__consumer_offsets", "__transaction_state")

_log = logging.getLogger(__name__)


def test_b25_b30_no_error_reaches_an_application_and_nothing_is_lost_or_doubled(
    cluster: Cluster,
) -> None:
    """After each restart, the preferred leaders are elected again. `--log-cli-level=info` shows the
    longest gaps."""
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(CALL_S)
    writers: list[Writing] = [
        kind(kind.__name__, cluster.address, TOPIC)
        for kind in (
            IdempotentProducer,
            TransactionalProducer,
            OwnIdempotentProducer,
            OwnTransactionalProducer,
        )
    ]
    consumer = GroupConsumer("group", cluster.address, TOPIC)
    with Admin(cluster.address) as own_admin, SteadyClients(*writers, consumer) as clients:
        wait_until(clients.have_advanced(), "all clients work", CALL_S)
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            assert "leaders moved" in broker.said()
            wait_until(clients.have_advanced(), "all clients continue", CALL_S)
            broker.start()
            wait_until(lambda: all_in_sync(admin), "all replicas are in sync", CALL_S)
            elected = own_admin.elect_leaders(ElectionType.PREFERRED)
            assert set(elected.values()) == {None}, "the broker has its leaders back"
            wait_until(clients.have_advanced(), "all clients continue", CALL_S)
    for client in clients.clients:
        _log.info("%s: longest gap %d ms", client.name, client.longest_gap_s * 1000)
    assert clients.errors == {}, cluster.said()
    written = sorted(value for writer in writers for value in writer.written)
    assert values(cluster.address, TOPIC, PARTITIONS) == written
    assert consumer.read <= Counter(written), "a record was read twice"


def all_in_sync(admin: AdminClient) -> bool:
    return all(in_sync(admin, topic, PARTITIONS) for topic in (TOPIC, *INTERNAL))
