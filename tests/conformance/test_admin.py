"""The admin clients of confluent-kafka, kafka-python and aiokafka manage topics, settings, offsets
and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import aiokafka.admin
import kafka.admin
import pytest
from confluent_kafka import ConsumerGroupState, TopicPartition
from confluent_kafka import ConsumerGroupTopicPartitions as Offsets
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.conformance.clients import Client, Record
from tests.conformance.clients.interface import ANSWER_TIMEOUT_S, Consumer, Refused
from tests.conformance.conftest import Target
from tests.conformance.polling import poll_until, read
from tests.harness.waiting import wait_until


def outcome(futures: dict[Any, Any]) -> list[str]:
    """Return the error name of each future in order, or NO_ERROR."""
    errors = [future.exception(ANSWER_TIMEOUT_S) for future in futures.values()]
    return ["NO_ERROR" if error is None else error.args[0].name() for error in errors]


def topic_names(admin: Any) -> set[str]:
    """Return the names of all topics in the metadata."""
    return set(admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics)


def partition_count(admin: Any, name: str) -> int:
    """Return the number of partitions, 0 for a topic that the broker does not know yet."""
    found = admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics.get(name)
    return 0 if found is None else len(found.partitions)


def test_confluent_topics(admin: Any, name: str) -> None:
    """Topics are created, extended, listed and deleted. A duplicate name and an invalid name are
    refused."""
    topics = [NewTopic(name, 2, config={"cleanup.policy": "compact"}), NewTopic("bad/name", 1)]
    assert outcome(admin.create_topics(topics)) == ["NO_ERROR", "TOPIC_EXCEPTION"]
    assert outcome(admin.create_topics([NewTopic(name, 2)])) == ["TOPIC_ALREADY_EXISTS"]
    assert outcome(admin.create_topics([NewTopic(f"{name}-x", 0)])) == ["INVALID_PARTITIONS"]
    wrong = NewTopic(f"{name}-y", 1, config={"retention.ms": "soon"})
    assert outcome(admin.create_topics([wrong])) == ["INVALID_CONFIG"]
    assert outcome(admin.create_partitions([NewPartitions(name, 4)])) == ["NO_ERROR"]
    assert outcome(admin.create_partitions([NewPartitions(name, 3)])) == ["INVALID_PARTITIONS"]
    wait_until(lambda: partition_count(admin, name) == 4, "four partitions")
    assert outcome(admin.delete_topics([name])) == ["NO_ERROR"]
    wait_until(lambda: name not in topic_names(admin), "the topic is gone")
    assert outcome(admin.delete_topics([name])) == ["UNKNOWN_TOPIC_OR_PART"]


def test_confluent_settings(admin: Any, topic: str) -> None:
    """Settings are changed and deleted one by one, and their description marks defaults. An invalid
    value is refused."""

    def change(name: str, value: str | None) -> list[str]:
        operation = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        return outcome(admin.incremental_alter_configs([resource]))

    def settings() -> dict[str, tuple[str, bool]]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        answer = admin.describe_configs([resource])[resource].result(ANSWER_TIMEOUT_S)
        return {name: (record.value, record.is_default) for name, record in answer.items()}

    assert settings()["retention.ms"] == ("604800000", True)
    assert change("retention.ms", "1000000") == ["NO_ERROR"]
    wait_until(lambda: settings()["retention.ms"] == ("1000000", False), "the setting is there")
    assert change("retention.ms", "never") == ["INVALID_CONFIG"]
    assert change("no.such.setting", "1") == ["INVALID_CONFIG"]
    assert change("retention.ms", None) == ["NO_ERROR"]
    wait_until(lambda: settings()["retention.ms"] == ("604800000", True), "the default again")


def test_records_before_an_offset_are_deleted(
    target: Target, admin: Any, python_clients: dict[str, Client], topic: str
) -> None:
    """DeleteRecords moves the log start. -1 means the end, and an offset beyond the end is
    refused."""
    client = python_clients["confluent-kafka"]
    client.producer(target.address).send(topic, [Record(b"%d" % at) for at in range(10)])

    def delete(offset: int) -> list[str]:
        return outcome(admin.delete_records([TopicPartition(topic, 0, offset)]))

    def earliest() -> int:
        place = TopicPartition(topic, 0)
        answer = admin.list_offsets({place: OffsetSpec.earliest()})
        return int(answer[place].result(ANSWER_TIMEOUT_S).offset)

    assert delete(4) == ["NO_ERROR"]
    assert earliest() == 4
    reader = client.consumer(target.address, topic, partitions=[0])
    assert [record.offset for record in read(reader, 6)] == [4, 5, 6, 7, 8, 9]
    assert delete(11) == ["OFFSET_OUT_OF_RANGE"]
    assert delete(-1) == ["NO_ERROR"]
    assert earliest() == 10


def test_confluent_groups(
    target: Target, admin: Any, python_clients: dict[str, Client], topic: str
) -> None:
    """Groups are described, listed and deleted. A group with members cannot be deleted."""
    client = python_clients["confluent-kafka"]
    member = client.consumer(target.address, topic, group=topic)
    poll_until([member], lambda: len(member.assignment()) == 3, "the member owns all partitions")
    member.commit({0: 0})

    def describe() -> Any:
        return admin.describe_consumer_groups([topic])[topic].result(ANSWER_TIMEOUT_S)

    wait_until(lambda: describe().state == ConsumerGroupState.STABLE, "the group is stable")
    described = describe()
    assert described.partition_assignor == "range"
    assert [len(member.assignment.topic_partitions) for member in described.members] == [3]
    assert outcome(admin.delete_consumer_groups([topic])) == ["NON_EMPTY_GROUP"]
    listed = admin.list_consumer_groups().result(ANSWER_TIMEOUT_S).valid
    assert topic in [group.group_id for group in listed]
    member.close()
    wait_until(lambda: describe().state == ConsumerGroupState.EMPTY, "the group is empty")
    assert outcome(admin.delete_consumer_groups([topic])) == ["NO_ERROR"]
    assert outcome(admin.delete_consumer_groups([topic])) == ["GROUP_ID_NOT_FOUND"]


@pytest.fixture
def kafka_python_admin(target: Target) -> Iterator[Any]:
    """kafka-python's admin client, connected to the target."""
    client = kafka.admin.KafkaAdminClient(bootstrap_servers=target.address)
    yield client
    client.close()


def commits(consumer: Consumer, offsets: Mapping[int, int]) -> bool:
    """Return True if the commit succeeds. If the client has to rejoin first, poll once for the
    rejoin and return False. The client rejoins once, when it gets the topic's metadata."""
    try:
        consumer.commit(offsets)
    except Refused as refused:
        if refused.kind != "RebalanceInProgressError":
            raise
        consumer.poll(0.2)
        return False
    return True


def test_kafka_python_admin(
    target: Target, kafka_python_admin: Any, python_clients: dict[str, Client], name: str
) -> None:
    """kafka-python's admin client manages topics, settings, offsets, groups and the cluster."""
    admin = kafka_python_admin
    admin.create_topics([kafka.admin.NewTopic(name, 2, 1)], wait_for_metadata=True)
    assert name in admin.list_topics()
    described = admin.describe_topics([name])[0]
    assert len(described["partitions"]) == 2
    resource = kafka.admin.ConfigResource(
        kafka.admin.ConfigResourceType.TOPIC, name, {"retention.bytes": "123456"}
    )
    admin.alter_configs([resource])
    wait_until(lambda: "123456" in str(admin.describe_configs([resource])), "the setting is there")
    client = python_clients["kafka-python"]
    client.producer(target.address).send(name, [Record(b"v")] * 3)
    consumer = client.consumer(target.address, name, group=name)
    read(consumer, 3)
    wait_until(lambda: commits(consumer, {0: 2}), "the group has settled")
    place = kafka.TopicPartition(name, 0)
    assert admin.list_group_offsets(name)[name][place].offset == 2
    consumer.close()
    wait_until(lambda: name in str(admin.list_groups()), "the group is listed")
    admin.delete_groups([name])
    assert admin.describe_cluster()["controller_id"] == 1
    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics(), "the topic is gone")


async def test_aiokafka_admin(target: Target, name: str) -> None:
    """aiokafka's admin client sends the oldest versions of the requests. It creates, describes and
    deletes a topic, and describes the cluster."""
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=target.address)
    await admin.start()
    try:
        created = await admin.create_topics([aiokafka.admin.NewTopic(name, 2, 1)])
        assert [topic_error[1] for topic_error in created.topic_errors] == [0]
        described = await admin.describe_topics([name])
        assert described[0]["topic"] == name
        cluster = await admin.describe_cluster()
        assert [broker["node_id"] for broker in cluster["brokers"]] == [1]
        deleted = await admin.delete_topics([name])
        assert [topic_error_code[1] for topic_error_code in deleted.topic_error_codes] == [0]
    finally:
        await admin.close()


def test_a_topic_is_created_by_its_first_use(target: Target, client: Client, name: str) -> None:
    """`auto.create.topics.enable` is on by default, so a producer's first write creates its
    topic."""
    producer = client.producer(target.address)
    assert producer.send(name, [Record(b"first")]) == [(0, 0)]
    reader = client.consumer(target.address, name, partitions=[0])
    assert read(reader, 1)[0].value == b"first"


def test_offsets_of_an_idle_group_can_be_changed(admin: Any, topic: str) -> None:
    """Before the request, the group does not exist. AlterConsumerGroupOffsets creates it."""
    wanted = Offsets(topic, [TopicPartition(topic, 0, 7), TopicPartition(topic, 2, 9)])
    admin.alter_consumer_group_offsets([wanted])[topic].result(ANSWER_TIMEOUT_S)
    found = admin.list_consumer_group_offsets([Offsets(topic)])[topic].result(ANSWER_TIMEOUT_S)
    offsets = {
        topic_partition.partition: topic_partition.offset
        for topic_partition in found.topic_partitions
    }
    assert offsets == {0: 7, 2: 9}
