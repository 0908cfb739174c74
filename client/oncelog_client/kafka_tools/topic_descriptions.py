"""Describes topics for kafka-topics.sh."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from oncelog_client.cli.partition_filters import FILTERS, Replication
from oncelog_client.kafka_tools.connecting import Connection
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError, check
from oncelog_client.kafka_tools.options import Given
from oncelog_client.kafka_tools.topic_moves import Moves, list_moves, replication_factor
from oncelog_client.kafka_tools.topic_names import ensure_found, listed, matching
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    TopicRequest,
)
from oncelog_protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from oncelog_protocol.types import uuid_from_string, uuid_to_string

_PAGE: Final = 2_000
_TOPIC: Final = 2  # the type of a resource in DescribeConfigs
_MIN_ISR: Final = "min.insync.replicas"
_DEFAULT_CONFIG: Final = 5  # the source of a setting that has its default (KIP-226)
_NOT_BASE64: Final = re.compile(r"[^a-zA-Z0-9_=-]")
_LONGEST_ID: Final = 24
_ZERO_ID: Final = bytes(16)


async def describe(connection: Connection, given: Given) -> None:
    """Print the topics that match, and their partitions."""
    names = await _requested(connection, given)
    if not names:
        return
    topics = await _topics(connection, names, given.number("partition-size-limit-per-response"))
    settings = await _settings(connection, names)
    moves = await list_moves(connection, topics)
    for topic in topics:
        _print_topic(given, topic, settings[topic.name or ""], moves.get(topic.name or "", {}))


async def _requested(connection: Connection, given: Given) -> list[str]:
    if_exists = given.has("if-exists")
    text = given.value("topic-id")
    if text is not None and (topic_id := _topic_id(text)) != _ZERO_ID:
        found = [
            topic.name or "" for topic in await listed(connection) if topic.topic_id == topic_id
        ]
        if not found and not if_exists:
            raise JavaError(ILLEGAL_ARGUMENT, f"TopicId '{text}' does not exist as expected")
        return found
    requested = given.value("topic")
    names = await matching(connection, requested, exclude_internal=given.has("exclude-internal"))
    ensure_found(names, requested, if_exists=if_exists)
    return names


def _topic_id(text: str) -> bytes:
    """Return the id of a topic. Raises JavaError with the messages of Kafka's Uuid.fromString."""
    wrong = _NOT_BASE64.search(text)
    if len(text) > _LONGEST_ID:
        reason = f"Input string with prefix `{text[:_LONGEST_ID]}` is too long to be decoded as a "
        reason += "base64 UUID"
    elif wrong is not None:
        reason = f"Illegal base64 character {ord(wrong[0]):x}"
    else:
        try:
            return uuid_from_string(text)
        except ValueError:
            size = len(text.rstrip("=")) * 6 // 8
            reason = f"Input string `{text}` decoded as {size} bytes, which is not equal to the "
            reason += "expected 16 bytes of a base64-encoded UUID"
    raise JavaError(ILLEGAL_ARGUMENT, reason)


async def _topics(
    connection: Connection, names: Sequence[str], page: int | None
) -> list[DescribeTopicPartitionsResponseTopic]:
    """Return the descriptions of the topics, from as many pages as the broker needs."""
    topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}
    cursor: RequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=page or _PAGE,
            cursor=cursor,
        )
        response = await connection.call_any(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            check(topic.error_code)
            known = topics.setdefault(topic.name or "", topic)
            if known is not topic:
                known.partitions += topic.partitions
        if response.next_cursor is None:
            return list(topics.values())
        following = response.next_cursor
        cursor = RequestCursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )


async def _settings(
    connection: Connection, names: Sequence[str]
) -> dict[str, list[DescribeConfigsResourceResult]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=None
            )
            for name in names
        ]
    )
    response = await connection.call_any(request, DescribeConfigsResponse)
    for row in response.results:
        check(row.error_code, row.error_message)
    return {row.resource_name: row.configs for row in response.results}


def _print_topic(
    given: Given,
    topic: DescribeTopicPartitionsResponseTopic,
    settings: Sequence[DescribeConfigsResourceResult],
    moves: Moves,
) -> None:
    own = [row for row in settings if row.config_source != _DEFAULT_CONFIG]
    reports = [report for report in FILTERS if given.has(report)]
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    if not reports and (own or not given.has("topics-with-overrides")):
        configs = ",".join(f"{row.name}={row.value}" for row in own)
        topic_id = topic.topic_id
        shown_id = "" if topic_id == _ZERO_ID else f"\tTopicId: {uuid_to_string(topic_id)}"
        sys.stdout.write(
            f"Topic: {topic.name}{shown_id}\tPartitionCount: {len(partitions)}"
            f"\tReplicationFactor: {replication_factor(partitions[0], moves)}"
            f"\tConfigs: {configs}\n"
        )
    if given.has("topics-with-overrides"):
        return
    minimum = next((int(row.value or 1) for row in settings if row.name == _MIN_ISR), 1)
    for partition in partitions:
        found = Replication(
            leader=partition.leader_id if partition.leader_id >= 0 else None,
            in_sync=len(partition.isr_nodes),
            replicas=replication_factor(partition, moves),
            minimum=minimum,
        )
        if not reports or any(FILTERS[report](found) for report in reports):
            move = moves.get(partition.partition_index)
            sys.stdout.write(_partition_line(topic.name or "", partition, move))


def _partition_line(
    topic: str,
    partition: DescribeTopicPartitionsResponsePartition,
    move: OngoingPartitionReassignment | None,
) -> str:
    moving = ""
    if move is not None:
        moving = (
            f"\tAdding Replicas: {_ids(move.adding_replicas)}"
            f"\tRemoving Replicas: {_ids(move.removing_replicas)}"
        )
    leader = str(partition.leader_id) if partition.leader_id >= 0 else "none"
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition_index}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replica_nodes)}\tIsr: {_ids(partition.isr_nodes)}{moving}"
        f"\tElr: {_ids(partition.eligible_leader_replicas)}"
        f"\tLastKnownElr: {_ids(partition.last_known_elr)}\n"
    )


def _ids(nodes: Sequence[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))
