"""Creates, alters and deletes topics for kafka-topics.sh."""

from __future__ import annotations

import re
import sys
from typing import Final

from oncelog_client.kafka_tools.connecting import Connection
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError, check, java_error
from oncelog_client.kafka_tools.java_text import split_text
from oncelog_client.kafka_tools.options import Given
from oncelog_client.kafka_tools.topic_names import ensure_found, listed, matching
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
_INT16_MAX: Final = 32_767


async def create(connection: Connection, given: Given) -> None:
    """Create the topic of the options."""
    name = given.value("topic") or ""
    partitions = given.number("partitions")
    replication_factor = given.number("replication-factor")
    assignments = _assignments(given.value("replica-assignment"))
    configs = [_config(text) for text in given.values("config")]
    if "." in name or "_" in name:
        sys.stdout.write(f"{_COLLISION}\n")
    if replication_factor is not None and not 1 <= replication_factor <= _INT16_MAX:
        text = f"The replication factor must be between 1 and {_INT16_MAX} inclusive"
        raise JavaError(ILLEGAL_ARGUMENT, text)
    if partitions is not None and partitions < 1:
        raise JavaError(ILLEGAL_ARGUMENT, "The partitions must be greater than 0")
    if not name:
        text = "The given topic name '' cannot be represented in a request."
        raise java_error(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in enumerate(assignments)
        ],
        configs=configs,
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=connection.timeout_ms)
    response = await connection.call_controller(request, CreateTopicsResponse)
    for row in response.topics:
        if row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and given.has("if-not-exists"):
            return
        check(row.error_code, row.error_message)
    sys.stdout.write(f"Created topic {name}.\n")


async def alter(connection: Connection, given: Given) -> None:
    """Add partitions to the topics that match."""
    count = given.number("partitions") or 0
    assignments = _assignments(given.value("replica-assignment"))
    requested = given.value("topic")
    names = await matching(connection, requested, exclude_internal=False)
    ensure_found(names, requested, if_exists=given.has("if-exists"))
    if not names:
        return
    existing = {topic.name: len(topic.partitions) for topic in await listed(connection)}
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[
                CreatePartitionsAssignment(broker_ids=brokers)
                for brokers in assignments[existing[name] :]
            ]
            if assignments
            else None,
        )
        for name in names
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=connection.timeout_ms)
    response = await connection.call_controller(request, CreatePartitionsResponse)
    for row in response.results:
        check(row.error_code, row.error_message)


async def delete(connection: Connection, given: Given) -> None:
    """Delete the topics that match."""
    requested = given.value("topic")
    names = await matching(connection, requested, exclude_internal=False)
    ensure_found(names, requested, if_exists=given.has("if-exists"))
    if not names:
        return
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=connection.timeout_ms,
    )
    response = await connection.call_controller(request, DeleteTopicsResponse)
    for row in response.responses:
        check(row.error_code, row.error_message)


def _config(text: str) -> CreatableTopicConfig:
    """Return the setting of `name=value`. Raises JavaError otherwise."""
    pair = re.split(r"\s*=\s*", text)
    if len(pair) != 2 or not pair[1]:
        raise JavaError(
            ILLEGAL_ARGUMENT,
            "requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".',
        )
    return CreatableTopicConfig(name=pair[0].strip(), value=pair[1].strip())


def _broker(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f'For input string: "{text}"'
        raise JavaError("java.lang.NumberFormatException", message) from None


def _assignments(text: str | None) -> list[list[int]]:
    """Return the brokers of each partition: `0:1,1:2` has two partitions. Raises JavaError for a
    broker that is no number, a broker given twice, and partitions of different sizes."""
    rows: list[list[int]] = []
    for partition, part in enumerate(split_text(text, ",") if text else ()):
        brokers = [_broker(broker) for broker in split_text(part, ":")]
        twice = [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
        if twice:
            raise JavaError(
                "org.apache.kafka.tools.AdminCommandFailedException",
                "Partition replica lists may not contain duplicate entries: "
                + ",".join(map(str, twice)),
            )
        rows.append(brokers)
        if len(brokers) != len(rows[0]):
            raise JavaError(
                "org.apache.kafka.tools.AdminOperationException",
                f"Partition {partition} has different replication factor: {brokers}",
            )
    return rows
