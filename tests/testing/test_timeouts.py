"""Calls of `oncelog.testing` that cannot succeed end with their reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from oncelog import KafkaError
from oncelog.testing import Broker, BrokerFailed, Namespace
from oncelog.testing.client_thread import CALL_TIMEOUT_S, ClientThread


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A namespace on a broker of its own."""
    with (
        Broker() as broker,
        closing(ClientThread(broker.bootstrap_servers, broker)) as thread,
    ):
        yield Namespace(thread, broker)


def test_a_timeout_names_the_last_refusal(namespace: Namespace) -> None:
    topic = namespace.topic("invoices", 2)
    namespace.faults.disk_full(str(topic))
    with pytest.raises(TimeoutError, match=r"after \d\.\d s: KAFKA_STORAGE_ERROR.*No space left"):
        topic.produce(b"1", timeout_s=2)
    with pytest.raises(TimeoutError, match=r"after \d\.\d s: KAFKA_STORAGE_ERROR.*No space left"):
        namespace.hang(namespace.id("billing"), topic, timeout_s=2)


def test_a_timeout_on_a_paused_broker_has_a_reason(namespace: Namespace) -> None:
    assert namespace.broker is not None
    namespace.broker.pause()
    calls = (
        lambda: namespace.topic("more", timeout_s=0.5),
        lambda: namespace.fence("billing", timeout_s=0.5),
    )
    for call in calls:
        with pytest.raises(TimeoutError, match="has sent no response"):
            call()
    namespace.broker.resume()


def test_a_wait_for_records_on_a_paused_broker_ends_after_its_time(namespace: Namespace) -> None:
    assert namespace.broker is not None
    topic = namespace.topic("invoices")
    topic.produce(b"1")
    assert topic.committed() == [b"1"]
    namespace.broker.pause()
    began_s = time.monotonic()
    for call in (topic.committed, topic.records):
        with pytest.raises(TimeoutError, match="has sent no response"):
            call(timeout_s=0.5)
    # Each wait has LEAST_CALL_S, and CALL_TIMEOUT_S would be 60 s.
    assert time.monotonic() - began_s < CALL_TIMEOUT_S / 2
    namespace.broker.resume()
    assert topic.committed(1) == [b"1"]


def test_a_call_to_a_killed_broker_fails_at_once(namespace: Namespace) -> None:
    assert namespace.broker is not None
    topic = namespace.topic("invoices")
    namespace.broker.kill()
    began_s = time.monotonic()
    for call in (topic.produce, topic.committed, lambda: namespace.topic("more")):
        with pytest.raises(BrokerFailed, match=r"^the broker .* does not run: restart\(\) it$"):
            call()
    with pytest.raises(ConnectionRefusedError, match=r"does not run.*: restart\(\) it"):
        namespace.faults.disk_full()
    assert time.monotonic() - began_s < 5
    namespace.broker.restart()
    topic.produce(b"1")
    assert topic.committed() == [b"1"]


def test_a_refused_record_is_an_error(namespace: Namespace) -> None:
    topic = namespace.topic("invoices")
    with (
        namespace.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED"),
        pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        topic.produce(b"1")


def test_a_topic_waits_only_for_the_markers_of_its_own_transactions(namespace: Namespace) -> None:
    """Other users of a shared broker may have a decided transaction at each look."""
    foreign, topic = namespace.topic("foreign"), namespace.topic("invoices")
    billing = namespace.id("billing")
    namespace.hang(billing, foreign)
    topic.produce(b"1")
    with namespace.faults.disk_full("foreign-"):  # the transaction is decided and gets no marker
        with pytest.raises(TimeoutError):
            namespace.fence(billing, timeout_s=1)
        assert namespace.open_transactions() == [billing]
        assert topic.committed(timeout_s=1) == [b"1"]
        with pytest.raises(TimeoutError, match=rf"without their markers: \['{billing}'\]"):
            foreign.committed(timeout_s=0.2)
    assert foreign.aborted() == [b"hanging"]
