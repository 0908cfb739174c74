"""While etcd does not respond, the commands of operators say so, and so do health checks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oncelog_client import NewTopic
from oncelog_client.sync import Admin
from tests.client.cli.conftest import CommandLine
from tests.harness.broker import Oncelog
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.scraping import PORT, metrics_url, scrape
from tests.harness.waiting import wait_until
from tests.harness.watch import Watch

CALL_S = 30.0
PROGRAM = Path(sys.executable).with_name("oncelog")
GIVE_UP = ("--give-up-after", "5")
SILENCE = "oncelog_metadata_store_silence_ms"


@pytest.fixture
def cluster(tmp_path: Path, real_etcd: Etcd) -> Iterator[Cluster]:
    """Three brokers with sessions that are longer than their heartbeats."""
    settings = {
        "oncelog.etcd.prefix": "/outage/",
        "broker.session.timeout.ms": "16000",
        "controlled.shutdown.enable": "false",
        **PORT,
    }
    with Cluster(tmp_path, real_etcd, settings=settings) as cluster:
        yield cluster


def health(address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), "health", "--bootstrap-server", address], capture_output=True, text=True
    )


def readiness(broker: Oncelog) -> tuple[int, str]:
    connection = HTTPConnection(metrics_url(broker).removeprefix("http://"), timeout=CALL_S)
    try:
        connection.request("GET", "/health/ready")
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture
def open_transaction(cluster: Cluster) -> Producer:
    settings = {"bootstrap.servers": cluster.address, "transactional.id": "open", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(CALL_S)
    return producer


def assert_waits_for_transactions(command_line: CommandLine, *check: str) -> None:
    """Assert that the command says what it waits for, and ends in time. The open transaction has a
    coordinator that leads nothing."""
    watch = Watch()
    checked = command_line.call(*check, "--json", *GIVE_UP)
    assert checked.exit_code == 1
    lines = checked.stderr.splitlines()
    waits = f"no result yet: transactions; waiting up to {GIVE_UP[1]} s (--give-up-after)"
    assert waits in lines
    # A call of the command that is repeated for longer than a second says why.
    repeated = f"trying again for up to {GIVE_UP[1]} s (--give-up-after)"
    assert [line for line in lines if line != waits and not line.endswith(repeated)] == []
    assert watch.passed_s < 2 * int(GIVE_UP[1])


def test_an_outage_is_seen_before_and_after_the_end_of_the_session(
    cluster: Cluster, real_etcd: Etcd, open_transaction: Producer
) -> None:
    command_line = CommandLine(cluster.address)
    broker = cluster.brokers[1]
    with Admin(cluster.address) as admin:
        admin.create_topics([NewTopic("t", 3, 3)])
    open_transaction.begin_transaction()
    open_transaction.produce("t", b"v")
    assert open_transaction.flush(CALL_S) == 0
    assert health(broker.address).returncode == 0
    assert scrape(broker).value(SILENCE) == 0
    assert command_line.call("cluster", "health").exit_code == 0

    (member,) = real_etcd.members
    member.pause()
    try:
        # The brokers still lead.
        command_line.settled(
            lambda rows: all(row["store_silence_ms"] for row in rows), "cluster", "brokers"
        )
        assert readiness(broker)[0] == 200
        said = health(broker.address)
        assert (said.returncode, "metadata store has not responded" in said.stdout) == (0, True)
        # And now they do not.
        rows = command_line.settled(
            lambda rows: {row["state"] for row in rows} == {"suspended"}, "cluster", "brokers"
        )
        assert min(row["store_silence_ms"] for row in rows) > 2_000
        said = health(broker.address)
        assert said.returncode == 1
        assert "leads nothing; its metadata store has not responded for" in said.stderr
        status, reason = readiness(broker)
        assert (status, "metadata store has not responded" in reason) == (503, True)
        assert scrape(broker).value(SILENCE) > 2_000
        for check in (("cluster", "health"), ("cluster", "doctor"), ("doctor",)):
            assert_waits_for_transactions(command_line, *check)
        findings = command_line.call("cluster", "doctor", *GIVE_UP)
        assert findings.exit_code == 1
        (line,) = (line for line in findings.stdout.splitlines() if "metadata store" in line)
        assert "broker 1 leads nothing, because it has no response for" in line
        assert f"start etcd ({real_etcd.urls[0]})" in findings.stdout
    finally:
        member.resume()
    command_line.settled(
        lambda rows: (
            {row["state"] for row in rows} == {"alive"}
            and not any(row["store_silence_ms"] for row in rows)
        ),
        "cluster",
        "brokers",
    )
    wait_until(lambda: readiness(broker)[0] == 200, "the broker is ready again", CALL_S)
    assert health(broker.address).returncode == 0
    assert scrape(broker).value(SILENCE) == 0
