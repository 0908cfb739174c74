"""The rights of the APIs about topics and records."""

from __future__ import annotations

from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import (
    delete_records,
    describe_producers,
    describe_topic_partitions,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from oncelog_server.security.access import NOT_ASKED_FOR
from oncelog_server.security.resources import Operation
from tests.server.handlers.requests import batch
from tests.server.handlers.rights.case import (
    ID,
    NOTHING,
    TOPIC,
    Case,
    Need,
    Outcome,
    always,
    at,
    cluster,
    hidden,
    need,
    topic,
    transactional_id,
)

# The right to create this name can be checked, but no such topic can be created.
INVALID_NAME: Final = "orders!"
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def produced(producer_id: int, name: str | None) -> Any:
    def request(topic_id: bytes) -> Any:
        data = [produce.PartitionProduceData(0, batch(producer_id))]
        topics = [produce.TopicProduceData(TOPIC, topic_id, data)]
        return produce.ProduceRequest(name, -1, 1_000, topics)

    return request


def fetched(replica_id: int) -> Any:
    def request(topic_id: bytes) -> Any:
        partitions = [fetch.FetchPartition(0, partition_max_bytes=1)]
        return fetch.FetchRequest(
            replica_id=replica_id,
            replica_state=fetch.ReplicaState(replica_id) if replica_id >= 0 else None,
            topics=[fetch.FetchTopic(TOPIC, topic_id, partitions)],
        )

    return request


def named(name: str) -> Any:
    return always(metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name)]))


def by_id(topic_id: bytes) -> Any:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(topic_id, None)])


def listed(response: Any) -> Outcome:
    """Return the names of the listed topics, without internal topics."""
    return frozenset(topic.name for topic in response.topics if not topic.is_internal)


def cluster_operations(response: Any) -> Outcome:
    """Return the operations that the client may do on the cluster, as a set of one number."""
    operations = response.cluster_authorized_operations
    assert operations != NOT_ASKED_FOR
    return frozenset({operations}) - {0}


ALL_TOPICS: Final = always(metadata.MetadataRequest(None))
# Before v1, an empty list requests all topics.
ALL_TOPICS_V0: Final = always(metadata.MetadataRequest([]))
WITH_OPERATIONS: Final = always(
    metadata.MetadataRequest([], include_cluster_authorized_operations=True)
)
OFFSETS: Final = always(
    list_offsets.ListOffsetsRequest(
        -1,
        topics=[
            list_offsets.ListOffsetsTopic(
                TOPIC, [list_offsets.ListOffsetsPartition(0, timestamp=-1)]
            )
        ],
    )
)
EPOCHS: Final = always(
    offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                TOPIC, [offset_for_leader_epoch.OffsetForLeaderPartition(0)]
            )
        ]
    )
)
DELETED: Final = always(
    delete_records.DeleteRecordsRequest(
        [delete_records.DeleteRecordsTopic(TOPIC, [delete_records.DeleteRecordsPartition(0, 0)])]
    )
)
PRODUCERS: Final = always(
    describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(TOPIC, [0])])
)


def partitions(*names: str) -> Any:
    topics = [describe_topic_partitions.TopicRequest(name) for name in names]
    return always(describe_topic_partitions.DescribeTopicPartitionsRequest(topics))


K = ApiKey
PRODUCED: Final = "responses.partition_responses"
# No transaction of this producer is open.
NOT_OPEN: Final = at(PRODUCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
MISSING: Final = at("topics", ErrorCode.INVALID_TOPIC_EXCEPTION)
CASES: Final = (
    Case(K.PRODUCE, produced(-1, None), (need(topic(WRITE), PRODUCED),)),
    Case(
        K.PRODUCE,
        produced(1_000_000, ID),
        (need(transactional_id(WRITE), PRODUCED), need(topic(WRITE), PRODUCED)),
        NOT_OPEN,
    ),
    Case(K.FETCH, fetched(-1), (need(topic(READ), "responses.partitions"),)),
    Case(
        K.FETCH,
        fetched(2),
        (need(cluster(Operation.CLUSTER_ACTION), "responses.partitions", DENIED),),
        # Broker 2 has no replica of the partition.
        allowed=frozenset(
            {("responses.partitions.error_code", int(ErrorCode.NOT_LEADER_OR_FOLLOWER))}
        ),
    ),
    Case(K.LIST_OFFSETS, OFFSETS, (need(topic(DESCRIBE), "topics.partitions"),)),
    Case(K.OFFSET_FOR_LEADER_EPOCH, EPOCHS, (need(topic(DESCRIBE), "topics.partitions"),)),
    Case(
        K.OFFSET_FOR_LEADER_EPOCH,
        EPOCHS,
        (need(cluster(Operation.CLUSTER_ACTION), "topics.partitions", DENIED),),
    ),
    Case(K.METADATA, named(TOPIC), (need(topic(DESCRIBE), "topics"),)),
    Case(K.METADATA, by_id, (need(topic(DESCRIBE), "topics"),), versions=range(12, 14)),
    Case(
        K.METADATA,
        named(INVALID_NAME),
        (
            need(topic(DESCRIBE, INVALID_NAME), "topics"),
            need(topic(Operation.CREATE, INVALID_NAME), "topics"),
        ),
        MISSING,
    ),
    Case(
        K.METADATA,
        named(INVALID_NAME),
        (
            need(topic(DESCRIBE, INVALID_NAME), "topics"),
            need(cluster(Operation.CREATE), "topics", DENIED),
        ),
        MISSING,
    ),
    Case(
        K.METADATA,
        ALL_TOPICS_V0,
        (hidden(topic(DESCRIBE)),),
        frozenset({TOPIC}),
        range(1),
        lambda response: frozenset(topic.name for topic in response.topics),
    ),
    Case(
        K.METADATA, ALL_TOPICS, (hidden(topic(DESCRIBE)),), frozenset({TOPIC}), range(1, 14), listed
    ),
    Case(
        K.METADATA,
        WITH_OPERATIONS,
        (hidden(cluster(DESCRIBE)),),
        frozenset({1 << DESCRIBE}),
        range(8, 11),
        cluster_operations,
    ),
    Case(K.DESCRIBE_TOPIC_PARTITIONS, partitions(TOPIC), (need(topic(DESCRIBE), "topics"),)),
    Case(
        K.DESCRIBE_TOPIC_PARTITIONS,
        partitions(),
        (hidden(topic(DESCRIBE)),),
        frozenset({TOPIC}),
        outcome=listed,
    ),
    Case(K.DELETE_RECORDS, DELETED, (need(topic(Operation.DELETE), "topics.partitions"),)),
    Case(
        K.DESCRIBE_PRODUCERS,
        PRODUCERS,
        (Need(topic(READ), at("topics.partitions", DENIED)),),
        NOTHING,
    ),
)
