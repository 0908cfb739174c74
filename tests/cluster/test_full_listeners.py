"""Clients use all connections of the brokers. Replication has a listener of its own (KIP-402)."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.testing.ports import reserve_port
from tests.cluster.reading import CALL_S, in_sync
from tests.harness.broker import Oncelog, OncelogByAddress
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

TOPIC = "t"
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
LIMIT = 30
SETTINGS = {
    "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
    "inter.broker.listener.name": BROKERS,
    "max.connections": str(LIMIT),
}


class TwoListeners(OncelogByAddress):
    """A broker with a listener for clients, on `port`, and one for brokers."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings)
        self.broker_port = reserve_port(self)

    @property
    def address_of_brokers(self) -> str:
        return f"{self.host}:{self.broker_port}"

    def _address_arguments(self) -> list[str]:
        listeners = f"{CLIENTS}://{self.address},{BROKERS}://{self.address_of_brokers}"
        return ["--set", f"listeners={listeners}"]


class TwoListenersEach(Cluster):
    brokers: dict[int, TwoListeners]  # type: ignore[assignment]

    def new_broker(self, directory: Path, settings: Mapping[str, str]) -> Oncelog:
        return TwoListeners(directory, settings)


@pytest.fixture
def cluster(
    tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest
) -> Iterator[TwoListenersEach]:
    settings = {"oncelog.etcd.prefix": f"/{request.node.name}/", **SETTINGS}
    with TwoListenersEach(tmp_path, real_etcd, settings=settings) as cluster:
        yield cluster


def crowd(broker: TwoListeners, number: int) -> list[socket.socket]:
    """Open connections to the listener for clients."""
    return [socket.create_connection((broker.host, broker.port), CALL_S) for _ in range(number)]


def is_refused(broker: TwoListeners) -> bool:
    """Return True if the listener closes a new connection at once."""
    with socket.create_connection((broker.host, broker.port), CALL_S) as connection:
        connection.settimeout(1)
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of oncelog."""
    program = [sys.executable, "-m", "oncelog_client.cli"]
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=CALL_S, check=False
    )


def alter(broker: TwoListeners, *change: str) -> None:
    """Change a setting of all brokers, at the listener for brokers."""
    done = run(
        *("config", "--bootstrap-server", broker.address_of_brokers),
        *("--alter", "--broker-defaults", *change),
    )
    assert done.returncode == 0, done.stderr


def operator(cluster: TwoListenersEach) -> AdminClient:
    """Return a client of the listener for brokers."""
    servers = ",".join(broker.address_of_brokers for broker in cluster.brokers.values())
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def test_a_broker_is_in_sync_again_while_clients_use_all_connections(
    cluster: TwoListenersEach,
) -> None:
    admin = operator(cluster)
    admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(CALL_S)
    wait_until(lambda: in_sync(admin, TOPIC, 3), "all replicas are in sync")
    cluster.brokers[3].stop()
    with ExitStack() as connections:
        for id in (1, 2):
            for connection in crowd(cluster.brokers[id], 2 * LIMIT):
                connections.enter_context(connection)
            wait_until(partial(is_refused, cluster.brokers[id]), "no client is admitted")
        cluster.brokers[3].start()
        wait_until(lambda: in_sync(admin, TOPIC, 3), "the broker is in sync again")
        servers = ",".join(broker.address_of_brokers for broker in cluster.brokers.values())
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        failures: list[object] = []
        producer.produce(TOPIC, "a", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(CALL_S) == 0
        assert failures == [None]


def test_an_operator_admits_clients_again_at_the_listener_for_brokers(
    cluster: TwoListenersEach,
) -> None:
    first = cluster.brokers[1]
    alter(first, "--add-config", "max.connections=1")
    with socket.create_connection((first.host, first.port), CALL_S):
        wait_until(lambda: is_refused(first), "no client is admitted")
        asked = run("health", "--bootstrap-server", first.address)
        reason = "the connection was closed before a response; the log of the broker says why"
        assert (asked.returncode, asked.stderr) == (1, f"{first.address}: {reason}\n")
        alter(first, "--delete-config", "max.connections")
    wait_until(lambda: not is_refused(first), "clients are admitted again")
