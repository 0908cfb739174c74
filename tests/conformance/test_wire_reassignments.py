"""Reassignment of partitions on a single broker, byte by byte as Apache Kafka (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

INVALID = "INVALID_REPLICA_ASSIGNMENT"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
MANUAL = "The manual partition assignment includes"
NONE = ("NONE", None)


def alter(
    wire: Wire, topic: str, *rows: tuple[int, Sequence[int] | None], version: int = 1
) -> list[tuple[int, str, str | None]]:
    """Return partition, code and message of each row."""
    partitions = [
        ReassignablePartition(number, None if replicas is None else [*replicas])
        for number, replicas in rows
    ]
    request = AlterPartitionReassignmentsRequest(
        10_000, topics=[ReassignableTopic(topic, partitions)]
    )
    response = wire.call(request, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert response.allow_replication_factor_change
    (found,) = response.responses
    assert found.name == topic
    return [
        (row.partition_index, ErrorCode(row.error_code).name, row.error_message)
        for row in found.partitions
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_partitions_that_cannot_move(wire: Wire, topic: str, version: int) -> None:
    rows: list[tuple[int, Sequence[int] | None]] = [
        (0, [1]),
        (0, None),
        (0, []),
        (0, [1, 1]),
        (1, [1, 9]),
        (9, [1]),
        (-1, None),
    ]
    assert alter(wire, topic, *rows, version=version) == [
        (0, *NONE),
        (0, "NO_REASSIGNMENT_IN_PROGRESS", None),
        (0, INVALID, f"{MANUAL} an empty replica list."),
        (0, INVALID, f"{MANUAL} the broker 1 more than once."),
        (1, INVALID, f"{MANUAL} broker 9, but no such broker is registered."),
        (9, UNKNOWN, f"Unable to find partition {topic}:9."),
        (-1, UNKNOWN, f"Unable to find partition {topic}:-1."),
    ]


def test_a_topic_that_does_not_exist_cannot_move(wire: Wire, name: str) -> None:
    unknown = f"Unable to find a topic named {name}."
    assert alter(wire, name, (0, [1]), (3, None)) == [
        (0, UNKNOWN, unknown),
        (3, UNKNOWN, unknown),
    ]


def test_a_request_without_topics_changes_nothing(wire: Wire) -> None:
    response = wire.call(AlterPartitionReassignmentsRequest(10_000, False, []))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    assert response.responses == []
    assert response.allow_replication_factor_change
