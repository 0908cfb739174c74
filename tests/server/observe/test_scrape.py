"""The page of metrics of a real broker, read by Prometheus's parser."""

from __future__ import annotations

import os
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_server.metrics import table as metrics
from tests.harness.broker import Oncelog
from tests.harness.scraping import PORT, metrics_url, scrape
from tests.harness.writing import batch, end_transaction, new_identity, produce

WHERE = {"topic": "t", "partition": "0"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    with Oncelog(tmp_path, PORT) as started:
        yield started


@pytest.fixture
def wire(broker: Oncelog) -> Iterator[Wire]:
    with Wire(broker.address) as connection:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        yield connection


def test_a_new_broker_has_every_metric_under_its_name_and_type(broker: Oncelog) -> None:
    page = scrape(broker)
    kinds = {metric.name.removesuffix("_total"): metric.kind for metric in metrics.METRICS}
    assert page.types == kinds
    unlabelled = {metric.name for metric in metrics.METRICS if not metric.labels}
    assert unlabelled <= page.names()
    assert page.value(metrics.BUILD_INFO.name, version=broker.version) == 1
    assert page.value(metrics.RESIDENT_BYTES.name) > 10_000_000
    assert page.value(metrics.ACTIVE_CONTROLLER.name) == 1


def test_requests_and_clients_have_their_metrics(broker: Oncelog, wire: Wire) -> None:
    client = ck.Producer({"bootstrap.servers": broker.address, "log_level": 0})
    client.produce("t", b"v")
    assert client.flush(30) == 0
    page = scrape(broker)
    total = metrics.TOTAL_TIME.name
    assert page.value(f"{total}_count", request="Produce") == 1
    assert page.value(total, request="Produce", quantile="0.50") > 0
    assert page.value(total, request="Produce", quantile="0.999") < 60_000
    clients = page.labels(metrics.CLIENTS.name)
    names = {labels["clientSoftwareName"] for labels in clients}
    assert names == {"confluent-kafka-python", "unknown"}
    assert page.value(metrics.DISK_FREE.name) > 0
    assert page.value(metrics.DISK_SIZE.name) > page.value(metrics.DISK_FREE.name)


@pytest.mark.parametrize("path", ["live", "ready"])
def test_a_broker_is_healthy(broker: Oncelog, path: str) -> None:
    with urllib.request.urlopen(f"{metrics_url(broker)}/health/{path}", timeout=60) as response:
        assert response.read() == f"{path}\n".encode()


def test_an_open_transaction_is_in_all_its_metrics_until_it_is_decided(
    broker: Oncelog, wire: Wire
) -> None:
    """KIP-98: live producer ids, the last stable offset, transactional ids."""
    producer = new_identity(wire, "id")
    assert produce(wire, "t", batch(producer, 0, count=3), producer=producer).error_code == 0
    page = scrape(broker)
    assert page.value(metrics.LAST_STABLE_OFFSET.name, **WHERE) == 0
    assert page.value(metrics.LAST_STABLE_OFFSET_LAG.name, **WHERE) == 3
    assert page.value(metrics.PRODUCER_ID_COUNT.name) == 1
    assert page.value(metrics.OPEN_TRANSACTIONS.name, state="Ongoing") == 1
    assert page.value(metrics.OPEN_TRANSACTIONS.name, state="Hanging") == 0
    assert page.value(metrics.TRANSACTIONAL_IDS.name, state="Ongoing") == 1
    assert end_transaction(wire, producer, commit=True).error_code == 0
    page = scrape(broker)
    assert page.value(metrics.LAST_STABLE_OFFSET.name, **WHERE) == 4
    assert page.value(metrics.LAST_STABLE_OFFSET_LAG.name, **WHERE) == 0
    assert page.value(metrics.OPEN_TRANSACTIONS.name, state="Ongoing") == 0
    assert page.value(metrics.TRANSACTIONAL_IDS.name, state="CompleteCommit") == 1
    assert page.value(metrics.TRANSACTIONS.name, outcome="commit", cause="client") == 1
    assert page.value(metrics.MARKERS_PENDING.name) == 0


def test_requests_connections_and_bytes_are_counted(broker: Oncelog, wire: Wire) -> None:
    producer = new_identity(wire)
    data = batch(producer, 0, value=b"x" * 1000)
    for _ in range(2):
        produce(
            wire, "t", data
        )  # The second batch repeats the first, so the broker does not append it.
    place = FetchTopic(topic="t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    wire.call(FetchRequest(topics=[place]), 12)
    page = scrape(broker)
    requests = metrics.REQUESTS.name
    assert page.value(requests, request="Produce", version="12") == 2
    assert page.value(requests, request="Fetch", version="12") == 1
    assert page.value(metrics.CONNECTIONS.name, listener="PLAINTEXT") == 1
    assert page.value(metrics.MESSAGES_IN.name, topic="t") == 1
    assert page.value(metrics.BYTES_IN.name, topic="t") == len(data)
    assert page.value(metrics.BYTES_OUT.name, topic="t") == len(data)
    assert page.value(metrics.LOG_SIZE.name, **WHERE) == len(data)


def test_coordinators_show_the_time_of_their_loads(broker: Oncelog, wire: Wire) -> None:
    new_identity(wire, "id")
    broker.stop()
    broker.start()
    page = scrape(broker)
    assert page.value(metrics.TRANSACTIONAL_IDS.name, state="Empty") == 1
    longest = page.value(metrics.TRANSACTION_LOAD_MAX.name)
    assert 0 <= page.value(metrics.TRANSACTION_LOAD_AVERAGE.name) <= longest < 10_000


def test_without_a_metrics_port_there_is_no_metrics_listener(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker:
        assert '"metrics"' not in broker.log.read_text()


def test_a_port_in_use_ends_the_start_before_anything_is_served(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = Oncelog(tmp_path, PORT | {"oncelog.metrics.port": str(port)})
        assert broker.spawn().wait(60) == 1
        assert f"port {port} is in use by " in broker.said()
        assert f"(pid {os.getpid()})" in broker.said()
        assert "oncelog.metrics.port=0 picks a free one" in broker.said()
