"""A rolling restart by SIGTERM: each broker moves its leaders before it stops, so no client gives
an error to its application (section 2.1 of the cluster brief, scenario B30)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_client.admin import ElectionType
from oncelog_client.sync import Admin
from tests.cluster.foreign_clients import (
    FranzGoProducer,
    JavaTransactionalProducer,
    built_franz_go,
)
from tests.cluster.reading import CALL_S, all_in_sync, values
from tests.cluster.steady_clients import (
    GroupConsumer,
    IdempotentProducer,
    OwnIdempotentProducer,
    OwnTransactionalProducer,
    SteadyClient,
    SteadyClients,
    TransactionalProducer,
    Writing,
)
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

TOPIC = "t"
PARTITIONS = 3

_log = logging.getLogger(__name__)


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    """The admin client of a cluster with the topic."""
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(CALL_S)
    return admin


def test_b25_b30_no_error_reaches_an_application_and_nothing_is_lost_or_doubled(
    cluster: Cluster, admin: AdminClient
) -> None:
    """After each restart, the preferred leaders are elected again. `--log-cli-level=info` shows the
    longest gaps."""
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
    written = written_over_restarts(cluster, admin, writers, consumer)
    assert consumer.read <= Counter(written), "a record was read twice"


def test_b30_no_error_reaches_an_application_with_franz_go(
    cluster: Cluster, admin: AdminClient, tmp_path: Path
) -> None:
    """The idempotent producer. The transactional one asks any broker that it knows for its
    coordinator, also the stopped one, and gives up after a few refused connections."""
    program = built_franz_go(tmp_path)
    written_over_restarts(
        cluster, admin, [FranzGoProducer(program, cluster.address, TOPIC, "idempotent")]
    )


def test_b30_no_error_reaches_an_application_with_javas_transactional_producer(
    cluster: Cluster, admin: AdminClient, kafka_jars: str, tmp_path: Path
) -> None:
    written_over_restarts(
        cluster, admin, [JavaTransactionalProducer(cluster.address, TOPIC, PARTITIONS, tmp_path)]
    )


def are_elected(admin: Admin) -> bool:
    """Elect the preferred leaders. Return True if no partition has another leader. On a busy
    computer, a broker may be fenced for a moment and cannot be elected."""
    return not any(admin.elect_leaders(ElectionType.PREFERRED).values())


def written_over_restarts(
    cluster: Cluster,
    admin: AdminClient,
    writers: Sequence[Writing],
    *others: SteadyClient,
) -> list[str]:
    """Stop and start each broker while the clients work, and check that none has an error. Return
    the records of the topic, which must be those that the writers have written."""
    with Admin(cluster.address) as own_admin, SteadyClients(*writers, *others) as clients:
        wait_until(clients.have_advanced(), "all clients work", CALL_S)
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            assert "leaders moved" in broker.log.read_text()
            wait_until(clients.have_advanced(), "all clients continue", CALL_S)
            broker.start()
            wait_until(lambda: all_in_sync(admin), "all replicas are in sync", CALL_S)
            wait_until(partial(are_elected, own_admin), "the broker has its leaders back")
            wait_until(clients.have_advanced(), "all clients continue", CALL_S)
    for client in clients.clients:
        _log.info("%s: longest gap %d ms", client.name, client.longest_gap_s * 1000)
    assert clients.errors == {}, cluster.said()
    written = sorted(value for writer in writers for value in writer.written)
    assert values(cluster.address, TOPIC, PARTITIONS) == written
    return written
