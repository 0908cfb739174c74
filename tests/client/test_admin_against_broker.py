"""The admin client with a running broker: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_client import (
    Admin,
    AlterConfigOp,
    CommitFailedError,
    ConfigResource,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ResourceType,
    TopicPartition,
)
from oncelog_client.admin import ConfigSource, ElectionType
from oncelog_protocol.errors import ErrorCode
from tests.client.conftest import led
from tests.client.refusing import refused
from tests.harness.client_reading import eventually, poll_until


async def test_topics_are_created_listed_described_and_deleted(admin: Admin, name: str) -> None:
    new = NewTopic(name, 3, 1, configs={"retention.ms": "1234567"})
    await admin.create_topics([new], validate_only=True)
    assert name not in await admin.list_topics()
    await admin.create_topics([new])
    assert await refused(admin.create_topics([new])) is ErrorCode.TOPIC_ALREADY_EXISTS
    await eventually(lambda: led(admin, name, 3))
    listing = (await admin.list_topics())[name]
    description = (await admin.describe_topics([name]))[name]
    assert listing.topic_id == description.topic_id != bytes(16)
    assert [(row.partition, row.in_sync_replicas) for row in description.partitions] == [
        (number, row.replicas) for number, row in enumerate(description.partitions)
    ]
    assert len(description.partitions) == 3
    unknown_id = b"an unknown topic"
    by_id = await admin.describe_topics_by_id([listing.topic_id, unknown_id])
    assert by_id.pop(listing.topic_id) == description
    error = by_id.pop(unknown_id)
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_ID
    await admin.delete_topics([name])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await refused(admin.delete_topics([name])) is unknown
    await eventually(lambda: gone(admin, name))


async def gone(admin: Admin, name: str) -> bool:
    """Return True if the description of a topic fails because the topic does not exist."""
    try:
        await admin.describe_topics([name])
    except KafkaError as error:
        return error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return False


async def test_bad_topics_are_refused_with_kafkas_codes(admin: Admin, name: str) -> None:
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await refused(admin.create_topics(["no/slash"])) is invalid
    none = NewTopic(name, 0, 1)
    assert await refused(admin.create_topics([none])) is ErrorCode.INVALID_PARTITIONS
    many = NewTopic(name, 1, 9)
    assert await refused(admin.create_topics([many])) is ErrorCode.INVALID_REPLICATION_FACTOR
    wrong = NewTopic(name, 1, 1, configs={"retention.ms": "soon"})
    assert await refused(admin.create_topics([wrong])) is ErrorCode.INVALID_CONFIG


async def test_partitions_can_be_added_and_not_taken_away(admin: Admin, topic: str) -> None:
    await admin.create_partitions({topic: 4})

    async def has_four() -> bool:
        return len((await admin.describe_topics([topic]))[topic].partitions) == 4

    await eventually(has_four)
    assert await refused(admin.create_partitions({topic: 3})) is ErrorCode.INVALID_PARTITIONS


async def test_settings_are_described_and_altered_one_by_one(admin: Admin, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    before = (await admin.describe_configs([resource]))[resource]
    assert before["retention.ms"].is_default
    await admin.alter_configs(
        {
            resource: [
                AlterConfigOp("retention.ms", "60000"),
                AlterConfigOp("cleanup.policy", "compact", "append"),
            ]
        }
    )

    async def changed() -> bool:
        after = (await admin.describe_configs([resource]))[resource]
        return after["retention.ms"].value == "60000"

    await eventually(changed)
    after = (await admin.describe_configs([resource]))[resource]
    assert after["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert after["cleanup.policy"].value == "delete,compact"
    await admin.alter_configs({resource: [AlterConfigOp("retention.ms", op="delete")]})

    async def unset() -> bool:
        return (await admin.describe_configs([resource]))[resource]["retention.ms"].is_default

    await eventually(unset)
    wrong = {resource: [AlterConfigOp("segment.bytes", "many")]}
    assert await refused(admin.alter_configs(wrong)) is ErrorCode.INVALID_CONFIG


async def test_the_settings_of_a_broker_are_described(admin: Admin) -> None:
    (node,) = (await admin.describe_cluster()).nodes
    resource = ConfigResource(ResourceType.BROKER, str(node.node_id))
    settings = (await admin.describe_configs([resource]))[resource]
    assert settings["transaction.max.timeout.ms"].value == "900000"


async def test_a_group_is_described_while_it_lives_and_deleted_after(
    bootstrap: str, admin: Admin, producer: Producer, topic: str, name: str
) -> None:
    tp = TopicPartition(topic, 0)
    await (await producer.send(topic, b"v", partition=0))
    async with Consumer(bootstrap, group_id=name, client_id="tester") as consumer:
        await consumer.subscribe([topic])
        await poll_until([consumer], consumer.assignment)
        await consumer.commit({tp: 1})
        described = (await admin.describe_groups([name]))[name]
        assert (described.state, described.partition_assignor) == ("Stable", "range")
        (member,) = described.members
        assert member.member_id == consumer.group_metadata().member_id
        assert member.client_id == "tester"
        assert set(member.assignment) == {tp, TopicPartition(topic, 1)}
        assert name in {group.group_id for group in await admin.list_groups(states=["Stable"])}
        assert await refused(admin.delete_groups([name])) is ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(CommitFailedError):
            await admin.alter_group_offsets(name, {tp: OffsetAndMetadata(0)})
    assert (await admin.describe_groups([name]))[name].state == "Empty"
    await admin.alter_group_offsets(name, {tp: OffsetAndMetadata(0, "again")})
    assert (await admin.list_group_offsets(name))[tp] == OffsetAndMetadata(0, "again")
    await admin.delete_group_offsets(name, [tp])
    assert tp not in await admin.list_group_offsets(name)
    await admin.delete_groups([name])
    assert (await admin.describe_groups([name]))[name].state == "Dead"


async def test_records_are_deleted_up_to_an_offset(
    admin: Admin, producer: Producer, lasting_topic: str
) -> None:
    tp = TopicPartition(lasting_topic, 0)
    for number in range(5):
        await producer.send(lasting_topic, b"%d" % number, partition=0, timestamp_ms=100 - number)
    await producer.flush()
    assert await admin.delete_records({tp: 3}) == {tp: 3}
    assert (await admin.list_offsets({tp: "earliest"}))[tp].offset == 3
    assert (await admin.list_offsets({tp: "latest"}))[tp].offset == 5
    assert (await admin.list_offsets({tp: "max_timestamp"}))[tp].timestamp_ms == 100
    assert await admin.delete_records({tp: -1}) == {tp: 5}
    assert await refused(admin.delete_records({tp: 6})) is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_the_cluster_and_its_log_directories_are_described(admin: Admin, topic: str) -> None:
    cluster = await admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller in cluster.nodes

    async def has_replica() -> bool:
        directories = await admin.describe_log_dirs()
        replicas = [row.replicas for rows in directories.values() for row in rows]
        return any(TopicPartition(topic, 1) in found for found in replicas)

    await eventually(has_replica)


async def test_a_partition_of_a_single_broker_can_only_stay_where_it_is(
    admin: Admin, topic: str
) -> None:
    """Moves between brokers: tests/cluster/test_reassignment.py."""
    place = TopicPartition(topic, 0)
    await admin.alter_partition_reassignments({place: [1]}, allow_replication_factor_change=False)
    assert await admin.list_partition_reassignments() == {}
    assert (
        await admin.list_partition_reassignments([place, TopicPartition(f"{topic}-not", 3)]) == {}
    )
    for partition, replicas, code in (
        (place, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (place, [1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (TopicPartition(f"{topic}-not", 0), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        # No code is retried until the timeout of the call, one minute.
        async with asyncio.timeout(10):
            moving = admin.alter_partition_reassignments({partition: replicas})
            assert await refused(moving) is code


async def test_leaders_are_elected_and_unknown_brokers_are_not_unregistered(
    admin: Admin, topic: str
) -> None:
    place, missing = TopicPartition(topic, 0), TopicPartition(topic, 99)
    for kind in ElectionType:
        results = await admin.elect_leaders(kind, [place, missing])
        assert {name: error and error.code for name, error in results.items()} == {
            place: ErrorCode.ELECTION_NOT_NEEDED,
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    assert place not in await admin.elect_leaders(ElectionType.PREFERRED)
    assert await refused(admin.unregister_broker(77)) is ErrorCode.BROKER_ID_NOT_REGISTERED
    described = await admin.describe_cluster(include_fenced_brokers=True)
    assert (len(described.nodes), described.fenced) == (1, ())


async def test_a_lag_ends_at_the_last_stable_offset(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    """With oncelog, the lag is a number of records. Apache Kafka cannot count records, so there the
    lag is a difference of offsets."""
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"committed", partition=0)
        await producer.begin_transaction()
        await producer.send(topic, b"open", partition=0)
        await producer.flush()
        await admin.alter_group_offsets(name, {place: OffsetAndMetadata(0)})
        lag = (await admin.describe_group_lag(name))[place]
        assert (lag.last_stable_offset, lag.high_watermark) == (2, 3)
        assert (lag.lag, lag.held_back) == ((1, 1) if lag.is_exact else (2, 1))
        await producer.abort_transaction()
