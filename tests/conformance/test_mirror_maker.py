"""MirrorMaker 2 copies from one oncelog broker to another. It starts without an error and copies
exactly once. A group that moves to the copy continues at its offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from oncelog.testing.broker import QUICK
from tests.conformance.clients.interface import ANSWER_TIMEOUT_S
from tests.harness.broker import Oncelog
from tests.harness.kafka.jars import KafkaUnavailable
from tests.harness.kafka.mirror_maker import MirrorMaker, mirror_maker_jars
from tests.harness.waiting import wait_until

TOPIC, COPY, GROUP = "purchases", "source.purchases", "billing"
PARTITIONS = 3
RECORDS = 20
# MirrorMaker logs each failed call of its admin client at this level, followed by an exception. A
# start without errors logs no such line.
ERROR = (" ERROR ", "Exception")
# The connector logs this if DescribeAcls gets SECURITY_DISABLED (B5).
NO_AUTHORIZER = "No ACL authorizer is configured on the source Kafka cluster"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Oncelog, Oncelog]]:
    """The source and the target cluster."""
    try:
        mirror_maker_jars()
    except KafkaUnavailable as reason:
        pytest.skip(f"MirrorMaker cannot be run: {reason}")
    with Oncelog(tmp_path / "a", QUICK) as source, Oncelog(tmp_path / "b", QUICK) as target:
        yield source, target


def admin(broker: Oncelog) -> Any:
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def value(partition: int, number: int) -> bytes:
    return b"%d of %d" % (number, partition)


def write(broker: Oncelog) -> None:
    """Create and write the topic. In each partition, committed and aborted records alternate."""
    config = {"retention.ms": "123456789"}
    its_admin = admin(broker)
    its_admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=config)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "shop"})
    producer.init_transactions(ANSWER_TIMEOUT_S)
    for half in range(2):
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                for number in range(RECORDS // 2):
                    is_committed = end == producer.commit_transaction
                    payload = value(partition, half * RECORDS // 2 + number)
                    producer.produce(
                        TOPIC, payload if is_committed else b"aborted", partition=partition
                    )
            producer.flush(ANSWER_TIMEOUT_S)
            end(ANSWER_TIMEOUT_S)


def reader(broker: Oncelog, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )


def read_all(broker: Oncelog, topic: str, count: int) -> list[tuple[int, int, bytes]]:
    """Return the first `count` committed records, and any that come with them."""
    consumer = reader(broker, "auditor")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    records: list[tuple[int, int, bytes]] = []

    def is_read() -> bool:
        for message in consumer.consume(100, 0.2):
            assert message.error() is None, message.error()
            records.append((message.partition(), message.offset(), message.value()))
        return len(records) >= count

    wait_until(is_read, f"{count} records of {topic}")
    consumer.close()
    return sorted(records)


def committed(its_admin: Any, topic: str) -> dict[int, int]:
    """Return the group's committed offsets."""
    asked = [ConsumerGroupTopicPartitions(GROUP)]
    try:
        found = its_admin.list_consumer_group_offsets(asked)[GROUP].result()
    except KafkaException:
        return {}
    return {
        topic_partition.partition: topic_partition.offset
        for topic_partition in found.topic_partitions
        if topic_partition.topic == topic
    }


def test_mirror_maker_copies_a_topic_once_and_moves_a_group(
    brokers: tuple[Oncelog, Oncelog], tmp_path: Path
) -> None:
    """MirrorMaker writes in transactions, and the source has aborted transactions. The group has
    read all of partitions 0 and 1, and nothing of 2."""
    source, target = brokers
    its_admin = admin(target)
    write(source)
    originals = read_all(source, TOPIC, PARTITIONS * RECORDS)
    ends = {partition: offset + 1 for partition, offset, _ in originals}
    consumer = reader(source, GROUP)
    consumer.commit(
        offsets=[TopicPartition(TOPIC, partition, ends[partition]) for partition in (0, 1)],
        asynchronous=False,
    )
    consumer.close()
    flow = {"source": source.address, "target": target.address}
    with MirrorMaker(tmp_path, flow, {"topics": TOPIC}) as mirror:
        wait_until(
            lambda: COPY in its_admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics,
            "the copy is there",
        )
        copies = read_all(target, COPY, len(originals))
        assert [(copy, text) for copy, _, text in copies] == [
            (original, text) for original, _, text in originals
        ]
        ends = {partition: offset + 1 for partition, offset, _ in copies}
        moved = {0: ends[0], 1: ends[1]}
        wait_until(lambda: committed(its_admin, COPY) == moved, f"the group is at {moved}")
        topic = ConfigResource(ConfigResource.Type.TOPIC, COPY)
        (described,) = its_admin.describe_configs([topic]).values()
        assert described.result()["retention.ms"].value == "123456789"
        said = mirror.said().splitlines()
        assert [line for line in said if any(word in line for word in ERROR)] == []
        assert any(NO_AUTHORIZER in line for line in said)
