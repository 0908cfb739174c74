"""etcd refuses the login of secured brokers, or a member of etcd has a certificate of another
authority: the brokers say so, stay alive, show no secret, and continue by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.reading import CALL_S, in_sync
from tests.cluster.secured import ETCD_PASSWORD, PASSWORDS, SecuredCluster, secured_etcd
from tests.harness.broker import Oncelog
from tests.harness.certificates import Certificates
from tests.harness.driving import taken
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

TOPIC, PARTITIONS = "t", 3
LOST = 3
NEW_PASSWORD = "canary-of-a-new-password"
# An idle broker takes 0.02 of a core.
MOST_CORES = 0.5
# Maximum number of log lines of a broker in an outage. It tries to reach etcd ten times a second.
# On a busy computer, a registration that ends and is made again is several lines.
MOST_LINES = 60


@pytest.fixture
def etcd(etcd_program: str, tmp_path: Path) -> Iterator[Etcd]:
    with secured_etcd(tmp_path / "etcd", Certificates(tmp_path), members=3) as etcd:
        yield etcd


@pytest.fixture
def cluster(etcd: Etcd, tmp_path: Path) -> Iterator[SecuredCluster]:
    certificates = etcd.members[0].shown
    assert certificates is not None
    with SecuredCluster(tmp_path, etcd, certificates) as cluster:
        yield cluster


def is_writable(cluster: SecuredCluster) -> bool:
    """Return True if all replicas are in sync, and a record of acks=all is acknowledged."""
    admin = AdminClient(cluster.librdkafka)
    if not in_sync(admin, TOPIC, PARTITIONS):
        return False
    producer = Producer({**cluster.librdkafka, "acks": "all"})
    producer.produce(TOPIC, b"value")
    return int(producer.flush(CALL_S)) == 0


@contextmanager
def calm(broker: Oncelog) -> Iterator[None]:
    """Fail if the broker is in a busy loop meanwhile, or fills its log."""
    began_s, used_s = time.monotonic(), taken(broker.pid).cpu_s
    lines = len(broker.log.read_text().splitlines())
    yield
    cores = (taken(broker.pid).cpu_s - used_s) / (time.monotonic() - began_s)
    assert cores < MOST_CORES
    said = broker.log.read_text().splitlines()[lines:]
    assert len(said) <= MOST_LINES, said


def refused_by(broker: Oncelog) -> bool:
    return "authentication failed, invalid user ID or password" in broker.log.read_text()


def secrets_in_logs(cluster: SecuredCluster) -> list[str]:
    secrets = [*PASSWORDS.values(), ETCD_PASSWORD, NEW_PASSWORD]
    logs = [
        path.read_text()
        for broker in cluster.brokers.values()
        for path in (broker.log, broker.output)
    ]
    return [secret for secret in secrets if any(secret in log for log in logs)]


def test_brokers_outlive_a_refused_login_and_a_member_with_a_foreign_certificate(
    cluster: SecuredCluster, etcd: Etcd, tmp_path: Path
) -> None:
    admin = AdminClient(cluster.librdkafka)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(CALL_S)
    wait_until(lambda: is_writable(cluster), "all replicas are in sync")

    broker, other, lost = cluster.brokers.values()
    with calm(broker), calm(other):
        # Etcd renews leases and serves watches without a login: a write is refused first.
        etcd.change_password(NEW_PASSWORD)
        lost.kill()
        wait_until(lambda: refused_by(broker) or refused_by(other), "the log says why")
        etcd.change_password(ETCD_PASSWORD)
        wait_until(
            lambda: (
                not {LOST, -1} & {cluster.leader(TOPIC, number) for number in range(PARTITIONS)}
            ),
            "the partitions of the lost broker have other leaders",
        )
    lost.start()
    wait_until(lambda: is_writable(cluster), "all replicas are in sync again")

    (tmp_path / "foreign").mkdir()
    member = etcd.members[0]
    member.stop()
    good, member.shown = member.shown, Certificates(tmp_path / "foreign")
    etcd.start(member)
    # A broker begins with the first member of its settings.
    broker.stop()
    broker.start()
    with calm(broker):
        reason = "the certificate of the peer is not valid"
        said = [line for line in broker.log.read_text().splitlines() if reason in line]
        assert said
        assert all(f'"member":"{member.url}"' in line for line in said)
        wait_until(lambda: is_writable(cluster), "the broker is in sync again")
    member.stop()
    member.shown = good
    etcd.start(member)
    # Now the first member is needed: the majority is this one and another one.
    etcd.members[1].stop()
    wait_until(lambda: is_writable(cluster), "the brokers continue at other members")
    assert all(broker.is_running for broker in cluster.brokers.values())
    assert secrets_in_logs(cluster) == []
