"""Metrics with Kafka's names have Kafka's labels, and the same values after the same work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from oncelog.testing.ports import free_ports
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import SUMMARY
from tests.harness.broker import Oncelog
from tests.harness.driving import list_offset
from tests.harness.kafka.kafka import Kafka, quick_jvm_options
from tests.harness.kafka.metrics import Samples, exported, jvm_options, scraped
from tests.harness.scraping import PORT, Scraped, scrape
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, find_coordinator, new_identity, produce

# Labels that only Kafka has. Kafka counts the connections of each thread, and may have several log
# directories.
MORE_LABELS = {
    metrics.CONNECTIONS.name: {"networkProcessor"},
    metrics.CONNECTIONS_MADE.name: {"listener", "networkProcessor"},
    metrics.CLIENTS.name: {"networkProcessor"},
    metrics.FAILED_AUTHENTICATIONS.name: {"networkProcessor"},
    metrics.EXPIRED_SESSIONS.name: {"networkProcessor"},
    metrics.UNCLEANABLE.name: {"logDirectory"},
}
LATEST = -1
PARTITION = {"topic": "t", "partition": "0"}
SAME = [
    (metrics.LAST_STABLE_OFFSET_LAG.name, PARTITION),
    (metrics.LOG_START_OFFSET.name, PARTITION),
    (metrics.LOG_END_OFFSET.name, PARTITION),
    (metrics.LOG_SIZE.name, PARTITION),
    (metrics.LOG_SEGMENTS.name, PARTITION),
    (metrics.UNDER_REPLICATED.name, PARTITION),
    (metrics.PRODUCER_ID_COUNT.name, {}),
    (metrics.LATE_TRANSACTIONS.name, {}),
    (metrics.PARTITION_COUNT.name, {}),
    (metrics.LEADER_COUNT.name, {}),
    (metrics.OFFLINE_COUNT.name, {}),
    (metrics.UNDER_REPLICATED_COUNT.name, {}),
    (metrics.REASSIGNING_COUNT.name, {}),
    (metrics.MESSAGES_IN.name, {"topic": "t"}),
    (metrics.BYTES_IN.name, {"topic": "t"}),
    (metrics.BYTES_OUT.name, {"topic": "t"}),
    (metrics.UNKNOWN_DESTINATION.name, {}),
    (metrics.UNAPPENDED.name, {}),
    (metrics.REQUESTS.name, {"request": "Produce", "version": "12"}),
    (metrics.REQUESTS.name, {"request": "Fetch", "version": "12"}),
    (metrics.ERRORS.name, {"request": "Produce", "error": "NONE"}),
    (metrics.ERRORS.name, {"request": "Fetch", "error": "NONE"}),
    (metrics.ERRORS.name, {"request": "EndTxn", "error": "NONE"}),
    (metrics.ACTIVE_CONTROLLER.name, {}),
    (metrics.GLOBAL_TOPICS.name, {}),
    (metrics.GLOBAL_PARTITIONS.name, {}),
    (metrics.OFFLINE_PARTITIONS.name, {}),
    (metrics.IMBALANCED_PARTITIONS.name, {}),
    (metrics.ACTIVE_BROKERS.name, {}),
    (metrics.FENCED_BROKERS.name, {}),
    (metrics.BROKER_STATE.name, {}),
    (metrics.GROUPS.name, {}),
    (metrics.GROUP_OFFSETS.name, {}),
]


class Figures(NamedTuple):
    """The metrics of both brokers after the same work."""

    ours: Scraped
    kafka: Samples


def work(address: str) -> None:
    """Commit one transaction, leave one open, read, and use a group."""
    with Wire(address) as wire:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        producer = new_identity(wire, "committed")
        assert produce(wire, "t", batch(producer, 0, count=3), producer=producer).error_code == 0
        assert end_transaction(wire, producer, commit=True).error_code == 0
        # Kafka responds before it has written the marker. The next batch must come after the
        # marker.
        wait_until(lambda: committed_end(wire) == 4, "the marker is there")
        producer = new_identity(wire, "open")
        assert produce(wire, "t", batch(producer, 0, count=2), producer=producer).error_code == 0
        place = FetchTopic(topic="t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
        wire.call(FetchRequest(topics=[place]), 12)
        find_coordinator(wire, "group", 0)
        # Kafka returns the coordinator before all partitions of the topic exist.
        for internal in ("__transaction_state", "__consumer_offsets"):
            for partition in range(50):
                wait_until(partial(is_led, wire, internal, partition), f"{internal}-{partition}")


def is_led(wire: Wire, topic: str, partition: int) -> bool:
    return list_offset(wire, topic, LATEST, partition)[0] == ErrorCode.NONE


def committed_end(wire: Wire) -> int:
    """Return the last stable offset. The request is not a Fetch, because the test compares the
    number of Fetch requests."""
    place = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(0, timestamp=LATEST)])
    response = wire.call(ListOffsetsRequest(isolation_level=1, topics=[place]), 7)
    return int(response.topics[0].partitions[0].offset)


@pytest.fixture(scope="module")
def figures(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Figures]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), PORT) as broker:
        work(broker.address)
        ours = scrape(broker)
    (port,) = free_ports(1)
    options = (*quick_jvm_options(), *jvm_options(port))
    with Kafka(tmp_path_factory.mktemp("kafka"), jvm_options=options) as kafka:
        work(kafka.address)
        yield Figures(ours, scraped(port))


# Metrics that Kafka's broker does not have. A separate program (kafka_exporter) computes them from
# responses of the broker.
OF_EXPORTERS = {metrics.GROUP_LAG.name}
# Kafka has the lag for each client id of a fetcher, here there is one for the broker.
OF_FETCHERS = {metrics.FETCHER_MAX_LAG.name}
# The metrics of replication. The Kafka of the tests is a single node.
OF_REPLICAS = {
    metrics.UNDER_MIN_ISR_COUNT.name,
    metrics.AT_MIN_ISR_COUNT.name,
    metrics.ISR_SHRINKS.name,
    metrics.ISR_EXPANDS.name,
    metrics.FAILED_ISR_UPDATES.name,
    metrics.REPLICATED_BYTES_IN.name,
    metrics.REPLICATED_BYTES_OUT.name,
    metrics.REASSIGNED_BYTES_IN.name,
    metrics.REASSIGNED_BYTES_OUT.name,
}
# Kafka has these only with an authorizer, and the Kafka of the tests has none.
OF_AUTHORIZERS = {metrics.ACLS.name}


def test_every_metric_with_kafkas_name_exists_in_kafka_with_the_same_labels(
    figures: Figures,
) -> None:
    in_kafka: dict[str, set[frozenset[str]]] = {}
    for name, labels in figures.kafka:
        in_kafka.setdefault(name, set()).add(frozenset(label for label, _ in labels))
    for metric in metrics.METRICS:
        others = OF_EXPORTERS | OF_AUTHORIZERS | OF_FETCHERS
        if metric.name.startswith("kafka_") and metric.name not in others:
            quantile = {"quantile"} if metric.kind == SUMMARY else set()
            known = frozenset({*metric.labels, *quantile, *MORE_LABELS.get(metric.name, ())})
            assert known in in_kafka.get(metric.name, set()), metric.name


@pytest.mark.parametrize(("name", "labels"), SAME, ids=lambda part: str(part))
def test_the_same_work_gives_a_metric_the_same_value_on_both_brokers(
    figures: Figures, name: str, labels: dict[str, str]
) -> None:
    assert figures.ours.value(name, **labels) == figures.kafka[name, frozenset(labels.items())]


def test_all_other_metrics_are_listed_here_as_not_compared() -> None:
    """The others are missing in Kafka, or are times, the state of groups or of the cleaner, or
    values that depend on the connected clients."""
    compared = {name for name, _ in SAME}
    left = {
        metric.name for metric in metrics.METRICS if metric.name.startswith("kafka_")
    } - compared
    assert left == {
        *OF_EXPORTERS,
        *OF_AUTHORIZERS,
        *OF_FETCHERS,
        *OF_REPLICAS,
        metrics.CONNECTIONS.name,
        metrics.CONNECTIONS_MADE.name,
        metrics.CLIENTS.name,
        metrics.FAILED_AUTHENTICATIONS.name,
        metrics.EXPIRED_SESSIONS.name,
        metrics.TOTAL_TIME.name,
        metrics.FLUSH_TIME.name,
        metrics.FETCH_SESSIONS.name,
        metrics.UNCLEANABLE.name,
        metrics.CLEANER_IDLE.name,
        metrics.TRANSACTION_LOAD_MAX.name,
        metrics.TRANSACTION_LOAD_AVERAGE.name,
        metrics.GROUP_LOAD_MAX.name,
        metrics.GROUP_LOAD_AVERAGE.name,
        *(metric.name for metric in metrics.GROUPS_IN.values()),
    }


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("kafka.log:type=Log,name=Size,topic=a.b,partition=0:Value=7", "kafka_log_log_size"),
        ("kafka.server:type=X,name=BytesInPerSec:Count=7", "kafka_server_x_bytesin_total"),
        ("kafka.server:type=x-metrics:load-time=7", "kafka_server_x_metrics_load_time"),
        ("kafka.server:type=X,name=TimeMs:99thPercentile=7", "kafka_server_x_timems"),
        ("kafka.server:type=X,name=BytesInPerSec:MeanRate=7", None),
        ("kafka.server:type=X,name=Y:Value=text", None),
        ("java.lang:type=Memory:Count=7", None),
    ],
)
def test_metrics_read_with_jmx_tool_get_the_names_of_the_jmx_exporter(
    line: str, name: str | None
) -> None:
    found = exported(line)
    assert (None if found is None else (found.name, found.value)) == (name and (name, 7))
