"""A suite of an application, which `test_plugin.py` runs in a pytest of its own.

It needs no fixture of the project. `test_plugin.py` runs it against oncelog, and
`test_plugin_on_kafka.py` against Apache Kafka.
"""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Producer

from oncelog.testing import Broker, Namespace, Topic


def bill(servers: str, topic: Topic, transactional_id: str, *values: bytes) -> None:
    """The application: one transaction with these values."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": transactional_id,
            "metadata.recovery.strategy": "none",  # docs/pytest.md says why
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic.name, value, partition=0)
    producer.flush()
    if b"refused" in values:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


def test_records_are_committed_or_aborted(oncelog: Namespace) -> None:
    topic = oncelog.topic("invoices", 3)
    billing = oncelog.id("billing")
    bill(oncelog.bootstrap_servers, topic, billing, b"1", b"2")
    bill(oncelog.bootstrap_servers, topic, billing, b"3", b"refused")
    topic.produce(b"plain", partition=1)
    assert topic.committed(3) == [b"1", b"2", b"plain"]
    assert topic.aborted() == [b"3", b"refused"]
    assert topic.undecided() == []
    assert oncelog.open_transactions() == []


def test_names_belong_to_this_test(oncelog: Namespace) -> None:
    assert oncelog.topic("invoices").committed() == []
    assert oncelog.id("billing") == oncelog.id("billing") != oncelog.id("other")
    assert oncelog.group("readers").startswith("readers-")


async def test_a_coroutine_uses_the_same_fixture(oncelog: Namespace) -> None:
    topic = oncelog.topic("invoices", configs={"retention.ms": 60_000})
    topic.produce(b"a", b"b")
    assert topic.committed() == [b"a", b"b"]


def test_a_transaction_that_hangs_is_fenced(oncelog: Namespace) -> None:
    topic, billing = oncelog.topic("invoices"), oncelog.id("billing")
    oncelog.hang(billing, topic)
    topic.produce(b"behind")
    assert topic.committed() == []
    assert topic.undecided() == [b"hanging", b"behind"]
    assert oncelog.open_transactions() == [billing]
    oncelog.fence(billing)
    assert topic.committed(1) == [b"behind"]
    assert topic.aborted() == [b"hanging"]


def test_a_transaction_times_out_at_once(oncelog: Namespace) -> None:
    topic = oncelog.topic("invoices")
    oncelog.hang(oncelog.id("billing"), topic)
    oncelog.clock.advance(minutes=15)
    deadline = time.monotonic() + 20
    while oncelog.open_transactions():
        assert time.monotonic() < deadline
    assert topic.aborted() == [b"hanging"]


def test_a_commit_survives_refused_requests(oncelog: Namespace) -> None:
    topic = oncelog.topic("invoices")
    with oncelog.faults.fail("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=2):
        bill(oncelog.bootstrap_servers, topic, oncelog.id("billing"), b"1")
    assert topic.committed() == [b"1"]


def test_a_commit_survives_a_kill(oncelog: Namespace, oncelog_broker: Broker) -> None:
    topic, billing = oncelog.topic("invoices"), oncelog.id("billing")
    oncelog.faults.kill_at("after-prepare")
    application = threading.Thread(
        target=bill, args=(oncelog.bootstrap_servers, topic, billing, b"1")
    )
    application.start()
    assert oncelog_broker.wait_for_death() == -9
    oncelog_broker.restart()
    application.join()
    assert topic.committed(1) == [b"1"]


@pytest.mark.oncelog(settings={"num.partitions": 7, "auto.create.topics.enable": True})
def test_a_marker_gives_the_test_a_broker_of_its_own(oncelog: Namespace) -> None:
    assert oncelog.broker is not None
    assert "num.partitions=7" in oncelog.broker.command()
