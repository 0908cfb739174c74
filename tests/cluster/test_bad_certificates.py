"""If the other brokers refuse a broker's certificate, the broker is not in sync and says why. It is
in sync again after its certificate is replaced."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.reading import CALL_S, in_sync, metadata_of, values
from tests.cluster.secured import SecuredCluster
from tests.harness.certificates import Certificates, Identity
from tests.harness.waiting import wait_until

TOPIC, PARTITIONS = "t", 3
BAD = 3
# The links of the broker to the two others: one each for Fetch, markers, added partitions and
# calls.
LINKS = 8


def expired(certificates: Certificates) -> Identity:
    hour = datetime.timedelta(hours=1)
    return certificates.broker("expired", datetime.datetime.now(datetime.UTC) - hour)


def foreign(certificates: Certificates) -> Identity:
    folder = certificates.authority_path.parent / "foreign"
    folder.mkdir()
    return Certificates(folder).server


def write(cluster: SecuredCluster, numbers: range) -> list[str]:
    """Write records with acks=all. Return them when all are acknowledged."""
    failures: list[str] = []
    producer = Producer({**cluster.librdkafka, "acks": "all"})

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    found = [f"{number:03}" for number in numbers]
    for value in found:
        producer.produce(TOPIC, value, on_delivery=delivered)
    assert producer.flush(CALL_S) == 0
    assert not failures
    return found


def lines(log: Path, text: str, start: int) -> list[str]:
    """Return the lines of a log that have the text, from this position on."""
    return [line for line in log.read_text()[start:].splitlines() if text in line]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (expired, "the peer refuses our certificate as expired"),
        (foreign, "the peer does not trust the authority of our certificate"),
    ],
)
def test_a_broker_with_a_bad_certificate_is_back_after_a_new_one(
    secured_cluster: SecuredCluster, bad: Callable[[Certificates], Identity], reason: str
) -> None:
    cluster = secured_cluster
    admin = AdminClient(cluster.librdkafka)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(CALL_S)
    wait_until(lambda: in_sync(admin, TOPIC, PARTITIONS), "all replicas are in sync")
    wrote = write(cluster, range(100))
    broker = cluster.brokers[BAD]
    broker.stop()
    broker.show(bad(cluster.certificates))
    start = len(broker.log.read_text())
    broker.start()

    wait_until(lambda: lines(broker.log, reason, start), "the broker says why")
    wrote += write(cluster, range(100, 200))
    rows = metadata_of(admin, TOPIC).topics[TOPIC].partitions.values()
    assert all(BAD not in (*row.isrs, row.leader) for row in rows)
    said = lines(broker.log, "no link to broker", start)
    assert 1 <= len(said) <= LINKS, said
    for other in (1, 2):
        # The broker may have tried only its link to the other one yet.
        find = partial(lines, cluster.brokers[other].log, '"authentication failed"', 0)
        wait_until(find, f"broker {other} refuses the broker")
        assert len(find()) <= LINKS, find()

    broker.show(cluster.certificates.broker("mended"))
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: in_sync(admin, TOPIC, PARTITIONS), "the broker is in sync again")
    assert values(cluster.address, TOPIC, PARTITIONS, cluster.librdkafka) == wrote
