"""Every handler asks whether the client may, before it looks at anything else, and says no as Kafka
does (reliability brief 9.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.handlers import all_handlers
from oncelog_server.node import Node
from oncelog_server.security.authorizer import Operation, Principal, Resource, ResourceType
from tests.server.handlers.nodes import ask, broker

HANDLERS: Final = {module.API: module for module in all_handlers()}
TOPIC: Final = "orders"

TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

DESCRIBE_TOPIC: Final = (Operation.DESCRIBE, ResourceType.TOPIC)
READ_TOPIC: Final = (Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = (Operation.WRITE, ResourceType.TOPIC)
READ_GROUP: Final = (Operation.READ, ResourceType.GROUP)
WRITE_ID: Final = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
CLUSTER_ACTION: Final = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

Right = tuple[Operation, ResourceType]


class Granting:
    """Allows these rights on every resource of the kind, and nothing else."""

    def __init__(self, *rights: Right) -> None:
        self._rights = rights

    def authorise(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return (operation, resource.type) in self._rights


class Untouched:
    """A part of the broker that nobody without the rights may reach."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def reached(*arguments: Any, **settings: Any) -> None:
            raise AssertionError(f"{name} was called for a client that may not")

        return reached


class NoGroups(Untouched):
    def shards(self) -> list[Any]:
        return []


class Clock:
    def now_ms(self) -> int:
        return 1_000_000

    monotonic_ms = now_ms


@dataclass(frozen=True)
class Denial:
    """A request about a topic by a client that has only the rights `granted`, and the one code
    (beside NONE) in its answer."""

    api: ApiKey
    request: Callable[[str], Any]
    code: ErrorCode
    granted: tuple[Right, ...] = ()
    version: int | None = None


def batch(producer_id: int) -> bytearray:
    epoch = 0 if producer_id >= 0 else -1
    return build_batch(
        [NewRecord(1, None, b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=epoch,
        is_transactional=producer_id >= 0,
    )


def produce_request(producer_id: int, transactional_id: str | None) -> Callable[[str], Any]:
    def request(topic: str) -> Any:
        data = [produce.PartitionProduceData(0, batch(producer_id))]
        topics = [produce.TopicProduceData(topic, partition_data=data)]
        return produce.ProduceRequest(transactional_id, -1, 1_000, topics)

    return request


def fetch_request(replica_id: int) -> Callable[[str], Any]:
    def request(topic: str) -> Any:
        topics = [fetch.FetchTopic(topic, partitions=[fetch.FetchPartition(0)])]
        return fetch.FetchRequest(replica_id=replica_id, topics=topics)

    return request


def list_offsets_request(topic: str) -> Any:
    partitions = [list_offsets.ListOffsetsPartition(0)]
    topics = [list_offsets.ListOffsetsTopic(topic, partitions)]
    return list_offsets.ListOffsetsRequest(topics=topics)


def epoch_request(topic: str) -> Any:
    partitions = [offset_for_leader_epoch.OffsetForLeaderPartition(0)]
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic, partitions)]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics)


def delete_records_request(topic: str) -> Any:
    partitions = [delete_records.DeleteRecordsPartition(0)]
    return delete_records.DeleteRecordsRequest(
        [delete_records.DeleteRecordsTopic(topic, partitions)]
    )


def commit_request(topic: str) -> Any:
    partitions = [offset_commit.OffsetCommitRequestPartition(0, 7)]
    topics = [offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions)]
    return offset_commit.OffsetCommitRequest("group", topics=topics)


def txn_commit_request(topic: str) -> Any:
    partitions = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(topic, partitions=partitions)]
    return txn_offset_commit.TxnOffsetCommitRequest("id", "group", 1, 0, topics=topics)


def offset_fetch_request(topic: str) -> Any:
    topics = [offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=[0])]
    groups = [offset_fetch.OffsetFetchRequestGroup("group", topics=topics)]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def offset_delete_request(topic: str) -> Any:
    partitions = [offset_delete.OffsetDeleteRequestPartition(0)]
    topics = [offset_delete.OffsetDeleteRequestTopic(topic, partitions)]
    return offset_delete.OffsetDeleteRequest("group", topics)


def add_by_client(topic: str) -> Any:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0])],
    )


def add_by_broker(topic: str) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0])]
    one = add_partitions_to_txn.AddPartitionsToTxnTransaction("id", 1, 0, False, topics)
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[one])


def markers_request(topic: str) -> Any:
    topics = [write_txn_markers.WritableTxnMarkerTopic(topic, [0])]
    marker = write_txn_markers.WritableTxnMarker(1, 0, False, topics, 0)
    return write_txn_markers.WriteTxnMarkersRequest([marker])


def coordinator_request(key_type: int) -> Callable[[str], Any]:
    return lambda topic: find_coordinator.FindCoordinatorRequest(
        key_type=key_type, coordinator_keys=["a"]
    )


def configs_request(resource_type: int) -> Callable[[str], Any]:
    def request(topic: str) -> Any:
        name = topic if resource_type == TOPIC_SETTINGS else "1"
        resource = describe_configs.DescribeConfigsResource(resource_type, name)
        return describe_configs.DescribeConfigsRequest([resource])

    return request


def always(request: Any) -> Callable[[str], Any]:
    return lambda topic: request


TOPIC_SETTINGS: Final = 2
BROKER_SETTINGS: Final = 4


def metadata_request(topic: str) -> Any:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic)])


def describe_topic_request(topic: str) -> Any:
    topics = [describe_topic_partitions.TopicRequest(topic)]
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics)


def create_request(topic: str) -> Any:
    return create_topics.CreateTopicsRequest([create_topics.CreatableTopic(topic, 1, 1)])


def delete_request(topic: str) -> Any:
    return delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(topic)])


def create_partitions_request(topic: str) -> Any:
    topics = [create_partitions.CreatePartitionsTopic(topic, 3)]
    return create_partitions.CreatePartitionsRequest(topics)


def alter_request(topic: str) -> Any:
    resource = alter_configs.AlterConfigsResource(TOPIC_SETTINGS, topic)
    return alter_configs.AlterConfigsRequest([resource])


def alter_incrementally_request(topic: str) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(TOPIC_SETTINGS, topic)
    return incremental_alter_configs.IncrementalAlterConfigsRequest([resource])


ANY_OFFSETS: Final = add_offsets_to_txn.AddOffsetsToTxnRequest("id", 1, 0, "group")
IDEMPOTENT: Final = init_producer_id.InitProducerIdRequest(None)
TRANSACTIONAL: Final = init_producer_id.InitProducerIdRequest("id")

K = ApiKey
DENIALS: Final = [
    Denial(K.PRODUCE, produce_request(-1, None), TOPIC_DENIED, version=12),
    Denial(K.PRODUCE, produce_request(1, "id"), ID_DENIED, (WRITE_TOPIC,), 12),
    Denial(K.PRODUCE, produce_request(1, None), ID_DENIED, (WRITE_TOPIC, WRITE_ID), 12),
    Denial(K.FETCH, fetch_request(-1), TOPIC_DENIED, (CLUSTER_ACTION,), 12),
    Denial(K.FETCH, fetch_request(2), TOPIC_DENIED, (READ_TOPIC,), 12),
    Denial(K.LIST_OFFSETS, list_offsets_request, TOPIC_DENIED),
    Denial(K.OFFSET_FOR_LEADER_EPOCH, epoch_request, TOPIC_DENIED),
    Denial(K.METADATA, metadata_request, TOPIC_DENIED),
    Denial(K.DESCRIBE_TOPIC_PARTITIONS, describe_topic_request, TOPIC_DENIED),
    Denial(K.DELETE_RECORDS, delete_records_request, TOPIC_DENIED, (DESCRIBE_TOPIC,)),
    Denial(K.CREATE_TOPICS, create_request, TOPIC_DENIED),
    Denial(K.DELETE_TOPICS, delete_request, TOPIC_DENIED),
    Denial(K.DELETE_TOPICS, delete_request, TOPIC_DENIED, (DESCRIBE_TOPIC,)),
    Denial(K.CREATE_PARTITIONS, create_partitions_request, TOPIC_DENIED),
    Denial(K.DESCRIBE_CONFIGS, configs_request(TOPIC_SETTINGS), TOPIC_DENIED),
    Denial(K.DESCRIBE_CONFIGS, configs_request(BROKER_SETTINGS), CLUSTER_DENIED),
    Denial(K.ALTER_CONFIGS, alter_request, TOPIC_DENIED),
    Denial(K.INCREMENTAL_ALTER_CONFIGS, alter_incrementally_request, TOPIC_DENIED),
    Denial(K.DESCRIBE_LOG_DIRS, always(describe_log_dirs.DescribeLogDirsRequest()), CLUSTER_DENIED),
    Denial(K.FIND_COORDINATOR, coordinator_request(0), GROUP_DENIED),
    Denial(K.FIND_COORDINATOR, coordinator_request(1), ID_DENIED),
    Denial(K.JOIN_GROUP, always(join_group.JoinGroupRequest("group")), GROUP_DENIED),
    Denial(K.SYNC_GROUP, always(sync_group.SyncGroupRequest("group")), GROUP_DENIED),
    Denial(K.HEARTBEAT, always(heartbeat.HeartbeatRequest("group")), GROUP_DENIED),
    Denial(K.LEAVE_GROUP, always(leave_group.LeaveGroupRequest("group")), GROUP_DENIED),
    Denial(K.DESCRIBE_GROUPS, always(describe_groups.DescribeGroupsRequest(["g"])), GROUP_DENIED),
    Denial(K.DELETE_GROUPS, always(delete_groups.DeleteGroupsRequest(["g"])), GROUP_DENIED),
    Denial(K.OFFSET_COMMIT, commit_request, GROUP_DENIED, (READ_TOPIC,), 9),
    Denial(K.OFFSET_FETCH, offset_fetch_request, GROUP_DENIED, (DESCRIBE_TOPIC,), 9),
    Denial(K.OFFSET_DELETE, offset_delete_request, GROUP_DENIED, (READ_TOPIC,)),
    Denial(K.TXN_OFFSET_COMMIT, txn_commit_request, ID_DENIED, (READ_GROUP, READ_TOPIC), 5),
    Denial(K.TXN_OFFSET_COMMIT, txn_commit_request, GROUP_DENIED, (WRITE_ID, READ_TOPIC), 5),
    Denial(K.TXN_OFFSET_COMMIT, txn_commit_request, TOPIC_DENIED, (WRITE_ID, READ_GROUP), 5),
    Denial(K.INIT_PRODUCER_ID, always(IDEMPOTENT), CLUSTER_DENIED, (WRITE_ID,)),
    Denial(K.INIT_PRODUCER_ID, always(TRANSACTIONAL), ID_DENIED),
    Denial(K.ADD_PARTITIONS_TO_TXN, add_by_client, ID_DENIED, (WRITE_TOPIC,), 3),
    Denial(K.ADD_PARTITIONS_TO_TXN, add_by_client, TOPIC_DENIED, (WRITE_ID,), 3),
    Denial(K.ADD_PARTITIONS_TO_TXN, add_by_broker, CLUSTER_DENIED, (WRITE_ID, WRITE_TOPIC)),
    Denial(K.ADD_OFFSETS_TO_TXN, always(ANY_OFFSETS), ID_DENIED, (READ_GROUP,)),
    Denial(K.ADD_OFFSETS_TO_TXN, always(ANY_OFFSETS), GROUP_DENIED, (WRITE_ID,)),
    Denial(K.END_TXN, always(end_txn.EndTxnRequest("id", 1, 0, True)), ID_DENIED),
    Denial(K.WRITE_TXN_MARKERS, markers_request, CLUSTER_DENIED, (WRITE_ID,)),
]
# Answered to everybody: nothing in it is a secret, or what is one is left out.
OPEN: Final = {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS}


@asynccontextmanager
async def broker_granting(*rights: Right) -> AsyncIterator[Node]:
    async with broker(authorizer=Granting(*rights)) as node:
        await node.metadata.create_topics([NewTopic(TOPIC)])
        untouched: Any = Untouched()
        groups: Any = NoGroups()
        yield replace(
            node,
            clock=Clock(),
            transactions=untouched,
            groups=groups,
            local_markers=untouched,
            new_producer_id=untouched.new_producer_id,
            fetch_sessions=FetchSessions(10, lambda: 1),
        )


def codes(answer: Any) -> Iterator[int]:
    """Every error code in an answer, at whatever level."""
    for name in getattr(answer, "__slots__", ()):
        value = getattr(answer, name)
        if name in {"error_code", "partition_error_code"}:
            yield value
        for one in value if isinstance(value, list) else [value]:
            yield from codes(one)


@pytest.mark.parametrize("topic", [TOPIC, "missing"])
@pytest.mark.parametrize(
    "denial", DENIALS, ids=[f"{one.api.name}-{one.code.name}" for one in DENIALS]
)
async def test_a_client_without_the_right_learns_and_changes_nothing(
    denial: Denial, topic: str
) -> None:
    """Not even whether the topic exists: the answers are the same."""
    async with broker_granting(*denial.granted) as node:
        before = node.metadata.image
        answer = await ask(HANDLERS[denial.api], node, denial.request(topic), denial.version)
        assert set(codes(answer)) - {ErrorCode.NONE} == {denial.code}
        assert node.metadata.image is before


def test_every_api_is_in_the_table() -> None:
    assert {one.api for one in DENIALS} | OPEN == set(HANDLERS)


async def test_what_a_client_may_not_see_is_left_out_of_lists() -> None:
    async with broker_granting() as node:
        everything = await ask(HANDLERS[ApiKey.METADATA], node, metadata.MetadataRequest(None))
        assert everything.topics == []
        groups = await ask(HANDLERS[ApiKey.LIST_GROUPS], node, list_groups.ListGroupsRequest())
        assert groups.groups == []


async def test_a_topic_is_not_created_for_a_client_that_may_only_see_it() -> None:
    async with broker_granting(DESCRIBE_TOPIC) as node:
        request = metadata.MetadataRequest([metadata.MetadataRequestTopic(name="missing")])
        (topic,) = (await ask(HANDLERS[ApiKey.METADATA], node, request)).topics
        assert topic.error_code == TOPIC_DENIED
        assert "missing" not in node.metadata.image.topics


async def test_who_may_write_to_a_topic_may_do_so_idempotently() -> None:
    async with broker_granting(WRITE_TOPIC) as node:
        node = replace(node, new_producer_id=lambda: 7)
        answer = await ask(HANDLERS[ApiKey.INIT_PRODUCER_ID], node, IDEMPOTENT)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.NONE, 7)


async def test_a_follower_may_ask_for_the_end_of_an_epoch() -> None:
    async with broker_granting(CLUSTER_ACTION) as node:
        answer = await ask(HANDLERS[ApiKey.OFFSET_FOR_LEADER_EPOCH], node, epoch_request(TOPIC))
        # Allowed: and then the log is not there in this test.
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
