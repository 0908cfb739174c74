"""The requests about records and topics that every user sends."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.messages import (
    describe_topic_partitions,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.conformance.rights.templates import (
    INVALID,
    NAMES,
    TOPICS,
    UNKNOWN_PRODUCER,
    User,
    constant,
    template,
)


def _batch(producer_id: int = -1) -> bytearray:
    is_transactional = producer_id >= 0
    return build_batch(
        [NewRecord(1_700_000_000_000, None, b"v")],
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
        is_transactional=is_transactional,
    )


def _produce(user: User, *names: str, id: str | None = None, producer_id: int = -1) -> Any:
    return produce.ProduceRequest(
        id,
        -1,
        10_000,
        [
            produce.TopicProduceData(
                name, user.topic_ids[name], [produce.PartitionProduceData(0, _batch(producer_id))]
            )
            for name in names
        ],
    )


@template()
def produce_to_one(user: User) -> Any:
    return _produce(user, "pay")


@template(until=12)
def produce_to_all(user: User) -> Any:
    return _produce(user, *NAMES)


@template(since=13)
def produce_by_id(user: User) -> Any:
    return _produce(user, *TOPICS)


@template()
def produce_with_id(user: User) -> Any:
    return _produce(user, "pay", "orders", id="pay", producer_id=UNKNOWN_PRODUCER)


@template()
def produce_in_a_transaction_without_id(user: User) -> Any:
    return _produce(user, "orders", producer_id=UNKNOWN_PRODUCER)


def _fetch(user: User, *names: str, replica_id: int = -1) -> Any:
    return fetch.FetchRequest(
        replica_id=replica_id,
        replica_state=None if replica_id < 0 else fetch.ReplicaState(replica_id),
        topics=[
            fetch.FetchTopic(
                name,
                user.topic_ids[name],
                [fetch.FetchPartition(0, partition_max_bytes=1, log_start_offset=0)],
            )
            for name in names
        ],
    )


@template(until=12)
def fetch_all(user: User) -> Any:
    return _fetch(user, *NAMES)


@template(since=13)
def fetch_by_id(user: User) -> Any:
    return _fetch(user, *TOPICS)


@template(until=12)
def fetch_as_a_follower(user: User) -> Any:
    return _fetch(user, "pay", replica_id=2)


constant(
    list_offsets.ListOffsetsRequest(
        -1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name, [list_offsets.ListOffsetsPartition(0, timestamp=-1)]
            )
            for name in NAMES
        ],
    ),
    "list_offsets",
)
constant(
    offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        -1,
        [
            offset_for_leader_epoch.OffsetForLeaderTopic(
                name, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
            )
            for name in NAMES
        ],
    ),
    "offset_for_leader_epoch",
)


def _metadata(*names: str, creates: bool = False) -> Any:
    return metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=creates,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


constant(_metadata(*NAMES), "metadata", since=4)
constant(_metadata(*TOPICS), "metadata_of_old_clients", until=3)
constant(_metadata(INVALID, creates=True), "metadata_that_creates")
constant(
    metadata.MetadataRequest(None, include_topic_authorized_operations=True),
    "metadata_of_all_topics",
    since=1,
)


@template(since=12)
def metadata_by_id(user: User) -> Any:
    return metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(user.topic_ids[name], None) for name in TOPICS],
        include_topic_authorized_operations=True,
    )


def _partitions(*names: str) -> Any:
    topics = [describe_topic_partitions.TopicRequest(name) for name in names]
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics)


constant(_partitions(*NAMES), "topic_partitions")
constant(_partitions(), "partitions_of_all_topics")
