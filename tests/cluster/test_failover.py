"""A leader is lost: its process dies, it shows no sign of life, or it only seems dead to the other
brokers. `python -m benchmarks.failover` measures the times."""

from __future__ import annotations

import base64
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.testing.proxy import Proxy
from oncelog_client.sync import Admin
from oncelog_server.cluster.records import BROKERS
from tests.cluster.reading import CALL_S, in_sync, metadata_of, values
from tests.harness.broker import Oncelog
from tests.harness.cluster import QUICK, Cluster
from tests.harness.etcd import Etcd
from tests.harness.etcd_gateway import text
from tests.harness.waiting import wait_until

TOPIC = "t"
# Of the fixture `cluster`: a test waits for its end.
SESSION_MS = 2_000
# No test lasts this long.
LONG_SESSION = {"broker.session.timeout.ms": "120000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def patient(tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers with a session that outlives the test."""
    settings = {"oncelog.etcd.prefix": f"/{request.node.name}/", **LONG_SESSION}
    with Cluster(tmp_path, real_etcd, settings=settings) as cluster:
        yield cluster


def led_by(cluster: Cluster, broker_id: int) -> str:
    """Create a topic of one partition with this leader."""
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    for number in range(100):
        topic = f"{TOPIC}-{number}"
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(CALL_S)
        wait_until(partial(in_sync, admin, topic, 1), "all replicas are in sync")
        if leader(admin, topic) == broker_id:
            return topic
    raise AssertionError(f"broker {broker_id} leads no topic")


def leader(admin: AdminClient, topic: str) -> int:
    return int(metadata_of(admin, topic).topics[topic].partitions[0].leader)


def write(producer: Producer, topic: str, value: str) -> None:
    """Write a record. Return when it is acknowledged."""
    failures: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(CALL_S) == 0
    assert failures == [None]


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_killed_leader_is_replaced_long_before_its_session_ends(
    patient: Cluster, is_controller: bool
) -> None:
    admin = AdminClient({"bootstrap.servers": patient.address, "log_level": 0})
    controller = metadata_of(admin).controller_id
    killed = next(id for id in patient.brokers if (id == controller) is is_controller)
    topic = led_by(patient, killed)
    producer = Producer({"bootstrap.servers": patient.address, "log_level": 0})
    write(producer, topic, "a")
    patient.brokers[killed].kill()
    write(producer, topic, "b")
    others = ",".join(b.address for id, b in patient.brokers.items() if id != killed)
    assert values(others, topic, 1) == ["a", "b"]
    patient.brokers[killed].start()
    wait_until(lambda: in_sync(admin, topic, 1), "the broker is in sync again", CALL_S)


def test_a_killed_leader_is_listed_beside_its_successor(patient: Cluster) -> None:
    """librdkafka would otherwise find the successor a second later."""
    killed = 2
    topic = led_by(patient, killed)
    admin = AdminClient({"bootstrap.servers": patient.brokers[1].address, "log_level": 0})
    patient.brokers[killed].kill()
    listed: list[set[int]] = []

    def is_replaced() -> bool:
        found = metadata_of(admin, topic)
        listed.append(set(found.brokers))
        return bool(found.topics[topic].partitions[0].leader != killed)

    wait_until(is_replaced, "another broker leads")
    assert listed[-1] == {1, 2, 3}
    wait_until(lambda: set(metadata_of(admin).brokers) == {1, 3}, "it is not listed")


def test_a_call_of_all_brokers_leaves_out_a_killed_one_that_is_still_listed(
    patient: Cluster,
) -> None:
    killed = 2
    topic = led_by(patient, killed)
    others = ",".join(patient.brokers[id].address for id in (1, 3))
    patient.brokers[killed].kill()
    admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
    wait_until(lambda: leader(admin, topic) != killed, "another broker leads")
    with Admin(others) as own_admin:
        assert own_admin.list_transactions() == []
        assert own_admin.list_groups() == []
        assert set(own_admin.describe_log_dirs()) == {1, 3}
    assert killed in metadata_of(admin).brokers


def test_without_an_exit_monitor_the_session_decides(
    tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest
) -> None:
    settings = {"oncelog.exit.monitor.enable": "false"}
    prefix = settings["oncelog.etcd.prefix"] = f"/{request.node.name}/"
    with Cluster(tmp_path, real_etcd, settings=settings) as cluster:
        check_that_the_session_decides(cluster, real_etcd, prefix, signal.SIGKILL)


def test_the_session_of_a_paused_leader_decides(
    cluster: Cluster, real_etcd: Etcd, request: pytest.FixtureRequest
) -> None:
    """Its process may continue at any time, and relies on its lease until then."""
    prefix = f"/{request.node.name}/"
    check_that_the_session_decides(cluster, real_etcd, prefix, signal.SIGSTOP)


def check_that_the_session_decides(
    cluster: Cluster, etcd: Etcd, prefix: str, how: signal.Signals
) -> None:
    topic = led_by(cluster, 2)
    others = ",".join(cluster.brokers[id].address for id in (1, 3))
    lease = leases(etcd, prefix)[2]
    # On a busy machine, a keepalive may be late.
    wait_until(lambda: left_s(etcd, lease) >= 1, "a keepalive")
    os.kill(cluster.brokers[2].pid, how)
    begin_s, session_s = time.monotonic(), left_s(etcd, lease)
    admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
    wait_until(lambda: leader(admin, topic) in (1, 3), "another broker leads", CALL_S)
    assert time.monotonic() - begin_s >= session_s
    write(Producer({"bootstrap.servers": others, "log_level": 0}), topic, "a")


def test_a_broker_that_lives_and_refuses_connections_stays_registered(
    tmp_path: Path, real_etcd: Etcd
) -> None:
    """A firewall can refuse connections for a process that lives. Such a broker relies on its lease
    for a whole session, so no other broker may end it."""
    settings = {"oncelog.etcd.prefix": "/refusing/", **LONG_SESSION}
    cluster = Cluster(tmp_path, real_etcd, settings=settings)
    with ExitStack() as reachable:
        proxy = reachable.enter_context(Proxy())
        refusing = cluster.brokers[3] = Oncelog(
            tmp_path / "refusing",
            {
                **QUICK,
                **settings,
                "node.id": "3",
                "oncelog.etcd.endpoints": ",".join(real_etcd.urls),
                "advertised.listeners": f"PLAINTEXT://{proxy.address}",
            },
        )
        with cluster:
            proxy.target = refusing.address
            led_by(cluster, 3)
            before = registered(real_etcd, "/refusing/")
            reachable.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(proxy.address.rpartition(":")[2])))
            # The death of another broker is noticed meanwhile.
            cluster.brokers[2].kill()
            wait_until(
                lambda: 2 not in registered(real_etcd, "/refusing/"), "the end of a registration"
            )
            assert registered(real_etcd, "/refusing/") == {id: before[id] for id in (1, 3)}


def rows_of_brokers(etcd: Etcd, prefix: str) -> dict[int, dict[str, Any]]:
    """Return the rows of the brokers that are registered."""
    keys = {"key": text(f"{prefix}{BROKERS}"), "range_end": text(f"{prefix}{BROKERS[:-1]}0")}
    rows = etcd.members[0].request("/v3/kv/range", keys)["kvs"]
    return {int(base64.b64decode(row["key"]).rpartition(b"/")[2]): row for row in rows}


def registered(etcd: Etcd, prefix: str) -> dict[int, int]:
    """Return the epochs of the brokers that are registered."""
    rows = rows_of_brokers(etcd, prefix)
    return {broker_id: int(row["create_revision"]) for broker_id, row in rows.items()}


def leases(etcd: Etcd, prefix: str) -> dict[int, str]:
    """Return the leases of the brokers that are registered."""
    rows = rows_of_brokers(etcd, prefix)
    return {broker_id: row["lease"] for broker_id, row in rows.items()}


def left_s(etcd: Etcd, lease: str) -> int:
    """Return how long a lease lasts without a keepalive, in whole seconds, rounded down."""
    return int(etcd.members[0].request("/v3/lease/timetolive", {"ID": lease}).get("TTL", 0))
