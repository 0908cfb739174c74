"""A second process with the id of a broker that is alive. Its start is refused. The broker stays
registered, and the folder of the refused start can be used with another id."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_server.cluster.records import BROKERS
from tests.cluster.reading import CALL_S
from tests.harness.broker import Oncelog
from tests.harness.cluster import QUICK, Cluster
from tests.harness.etcd import Etcd
from tests.harness.etcd_gateway import text
from tests.harness.waiting import wait_until

IN_USE = "the broker's id is in use"


@pytest.fixture
def single(tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Broker 1, with a topic."""
    settings = {
        "oncelog.etcd.prefix": prefix(request),
        # No test lasts this long: a broker that waits for a processor stays registered.
        "broker.session.timeout.ms": "120000",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
    }
    with Cluster(tmp_path, real_etcd, 1, settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(CALL_S)
        wait_until(lambda: cluster.leader("t", 2) == 1, "the topic has its leader")
        yield cluster


def prefix(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}/"


def registrations(etcd: Etcd, request: pytest.FixtureRequest) -> list[dict[str, str]]:
    """Return the keys of the registered brokers, with their revisions and leases."""
    start = f"{prefix(request)}{BROKERS}"
    keys = {"key": text(start), "range_end": text(f"{start[:-1]}0")}
    found = etcd.members[0].request("/v3/kv/range", keys).get("kvs", [])
    return [{name: row[name] for name in ("key", "mod_revision", "lease")} for row in found]


def intruder(
    tmp_path: Path, etcd: Etcd, request: pytest.FixtureRequest, timeout_ms: int, node_id: int = 1
) -> Oncelog:
    return Oncelog(
        tmp_path / "intruder",
        {
            **QUICK,
            "node.id": str(node_id),
            "oncelog.etcd.endpoints": ",".join(etcd.urls),
            "oncelog.etcd.prefix": prefix(request),
            "initial.broker.registration.timeout.ms": str(timeout_ms),
        },
    )


@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGKILL])
def test_a_second_process_with_the_id_of_a_broker_changes_nothing(
    single: Cluster,
    tmp_path: Path,
    real_etcd: Etcd,
    request: pytest.FixtureRequest,
    end: signal.Signals | None,
) -> None:
    """The second process ends by its timeout, by a stop, or by a kill while it waits. Its exit
    monitor used to print that the registration had ended, and its folder belonged to broker 1."""
    before = registrations(real_etcd, request)
    assert len(before) == 1
    second = intruder(tmp_path, real_etcd, request, 1_000 if end is None else 600_000)
    process = second.spawn()
    wait_until(lambda: IN_USE in second.log.read_text(), "the warning")
    if end is not None:
        process.send_signal(end)
    process.wait(20)
    wait_until(lambda: not monitors(second), "the end of the exit monitor")
    assert "has ended" not in second.log.read_text()
    assert registrations(real_etcd, request) == before
    left = [path.name for path in second.data.glob("*")] if second.data.exists() else []
    assert left in ([], [".lock"])
    with intruder(tmp_path, real_etcd, request, 60_000, node_id=5):
        wait_until(lambda: len(registrations(real_etcd, request)) == 2, "both are registered")
    assert single.brokers[1].is_running


def monitors(broker: Oncelog) -> list[str]:
    """Return the processes that have the broker's log open."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for number in (1, 2):
            try:
                path = os.readlink(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue  # the process has ended, or belongs to another user
            if path == str(broker.log):
                found.append(pid)
    return found
