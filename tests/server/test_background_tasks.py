"""Periodic tasks of a real broker process that is killed."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from oncelog_server.log.checkpoints import decode_offsets
from oncelog_server.storage.layout import RECOVERY_POINT_CHECKPOINT
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until

DEADLINE_S = 60.0
TOPIC = "again"


def recovery_points(broker: Oncelog) -> dict[tuple[str, int], int]:
    path = broker.data / RECOVERY_POINT_CHECKPOINT
    return decode_offsets(path.read_bytes()) if path.exists() else {}


def create(admin: AdminClient) -> None:
    topic = NewTopic(TOPIC, 1, 1, config={"flush.messages": "1"})
    admin.create_topics([topic])[TOPIC].result(DEADLINE_S)


def produce(broker: Oncelog, count: int) -> None:
    refused: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        refused.append(error)

    producer = Producer({"bootstrap.servers": broker.address})
    for n in range(count):
        producer.produce(TOPIC, b"%d" % n, on_delivery=delivered)
    producer.flush(DEADLINE_S)
    assert refused == [None] * count


def test_a_recreated_topic_does_not_use_the_checkpoints_of_the_deleted_topic(
    tmp_path: Path,
) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "200"}
    with Oncelog(tmp_path, settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        create(admin)
        produce(broker, 50)
        wait_until(lambda: recovery_points(broker).get((TOPIC, 0)) == 50, "a checkpoint")
        admin.delete_topics([TOPIC])[TOPIC].result(DEADLINE_S)
        assert (TOPIC, 0) not in recovery_points(broker)
        create(admin)
        produce(broker, 3)
        broker.kill()
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.address})
        partition = TopicPartition(TOPIC, 0)
        ends = admin.list_offsets({partition: OffsetSpec.latest()})
        assert ends[partition].result(DEADLINE_S).offset == 3
