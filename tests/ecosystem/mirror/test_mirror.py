"""MirrorMaker 2 with exactly once, from Apache Kafka to the broker of the row and on to another
Apache Kafka, while MirrorMaker and the broker between are killed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ecosystem.audit import Audit
from tests.ecosystem.conftest import Broker
from tests.ecosystem.feeder import Feeder
from tests.ecosystem.kills import KILLS, kill_in_turn
from tests.ecosystem.outcome import compare, recorded
from tests.harness.committing import commit_offsets
from tests.harness.kafka.jars import KafkaUnavailable
from tests.harness.kafka.mirror_maker import MirrorMaker, mirror_maker_jars
from tests.harness.waiting import wait_until

TOPIC, COPY, COPY_OF_COPY = "orders", "old.orders", "between.old.orders"
GROUP = "billing"
PARTITIONS = 2
RATE = 50.0
DEADLINE_S = 180.0
# A restarted MirrorMaker takes over from the killed process after this time.
SETTINGS = {
    "topics": r"orders|old\.orders",
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "heartbeats.replication.enabled": "false",
    "emit.heartbeats.enabled": "false",
}


@pytest.fixture
def ends(broker_of: Callable[[str], Broker], kafka_jars: str) -> tuple[Broker, Broker]:
    """The Apache Kafka at the beginning, and the one at the end."""
    try:
        mirror_maker_jars()
    except KafkaUnavailable as reason:
        pytest.skip(f"MirrorMaker cannot be run: {reason}")
    return broker_of("kafka"), broker_of("kafka")


def committed(address: str, topic: str) -> dict[int, int]:
    """Return the group's committed offsets."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions(GROUP)]
    try:
        found = admin.list_consumer_group_offsets(asked)[GROUP].result()
    except KafkaException:
        return {}
    return {
        place.partition: place.offset for place in found.topic_partitions if place.topic == topic
    }


def is_at_the_end(audit: Audit, topic: str) -> bool:
    ends = {seen.partition: seen.offset + 1 for seen in audit.records(topic)}
    return committed(audit.address, topic) == ends


def test_each_record_is_copied_once_over_two_hops(
    broker: Broker,
    ends: tuple[Broker, Broker],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """A group that has read all of the first topic is at the end of both copies."""
    old, new = ends
    before, between, after = (Audit(each.address) for each in (old, broker, new))
    admin = AdminClient({"bootstrap.servers": old.address, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    flow = {"old": old.address, "between": broker.address, "new": new.address}
    with MirrorMaker(tmp_path, flow, SETTINGS) as mirror:
        with Feeder(old.address, TOPIC, lambda number: (str(number), str(number)), RATE) as feeder:
            kill_in_turn([mirror, broker], lambda: after.progress(COPY_OF_COPY))
        expected = [(seen.partition, seen.value) for seen in before.records(TOPIC)]
        assert len(expected) == feeder.written
        wait_until(
            lambda: len(after.records(COPY_OF_COPY)) >= len(expected), "all copies", DEADLINE_S
        )
        consumer = Consumer({"bootstrap.servers": old.address, "group.id": GROUP, "log_level": 0})
        offsets = [TopicPartition(TOPIC, *end) for end in before.ends(TOPIC).items()]
        commit_offsets(consumer, offsets)
        consumer.close()
        for audit, topic in ((between, COPY), (after, COPY_OF_COPY)):
            is_there = partial(is_at_the_end, audit, topic)
            wait_until(is_there, f"the group is at the end of {topic}", DEADLINE_S)
        mirror.stop()
    for audit, topic in ((between, COPY), (after, COPY_OF_COPY)):
        copies = [(seen.partition, seen.value) for seen in audit.records(topic)]
        outcome = compare(
            expected, copies, audit.open_transactions(), f"{KILLS} MirrorMaker, {KILLS} broker"
        )
        assert recorded(request, outcome).is_exact(), (topic, outcome)
        assert sorted(copies, key=lambda copy: copy[0]) == sorted(
            expected, key=lambda copy: copy[0]
        )
