"""AlterPartitionReassignments and ListPartitionReassignments on a single broker: its partitions can
only stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from oncelog_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster import records
from oncelog_server.cluster.store import Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import alter_partition_reassignments, list_partition_reassignments
from tests.server.handlers.nodes import ask, broker

NONE = (ErrorCode.NONE, None)
# A broker that is not alive.
OTHER = 2


async def new_topic(services: BrokerServices) -> str:
    await services.metadata.create_topics([NewTopic("t")])
    return "t"


async def alter(
    services: BrokerServices,
    *rows: tuple[str, int, Sequence[int] | None],
    version: int = 1,
    may_change_factor: bool = True,
) -> list[tuple[int, str | None]]:
    topics = [
        ReassignableTopic(
            name, [ReassignablePartition(number, None if replicas is None else [*replicas])]
        )
        for name, number, replicas in rows
    ]
    request = AlterPartitionReassignmentsRequest(60_000, may_change_factor, topics)
    response = await ask(alter_partition_reassignments, services, request, version=version)
    assert response.allow_replication_factor_change is may_change_factor
    assert (response.error_code, response.error_message) == NONE
    assert [topic.name for topic in response.responses] == [name for name, _, _ in rows]
    found = [row for topic in response.responses for row in topic.partitions]
    assert [row.partition_index for row in found] == [number for _, number, _ in rows]
    return [(row.error_code, row.error_message) for row in found]


async def listed(services: BrokerServices, *names: str) -> dict[tuple[str, int], Any]:
    topics = [ListPartitionReassignmentsTopics(name, [0, 1, 7]) for name in names] or None
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = await ask(list_partition_reassignments, services, request)
    assert len({topic.name for topic in response.topics}) == len(response.topics)
    return {
        (topic.name, row.partition_index): (
            row.replicas,
            row.adding_replicas,
            row.removing_replicas,
        )
        for topic in response.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1])
async def test_each_partition_has_its_own_result(version: int) -> None:
    async with broker() as services:
        (own,) = services.metadata.image.brokers
        name = await new_topic(services)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await alter(
            services,
            (name, 0, [own]),
            (name, 0, None),
            (name, 0, [own, 77]),
            (name, 999, [own]),
            ("absent", 0, [own]),
            version=version,
        ) == [
            NONE,
            (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
            (
                invalid,
                "The manual partition assignment includes broker 77, but no such broker is "
                "registered.",
            ),
            (unknown, f"Unable to find partition {name}:999."),
            (unknown, "Unable to find a topic named absent."),
        ]
        assert await listed(services) == {}


async def test_a_move_is_listed_until_it_is_cancelled() -> None:
    async with broker() as services:
        (own,) = services.metadata.image.brokers
        name = await new_topic(services)
        endpoint = records.EndpointRecord("PLAINTEXT", "host", 9092)
        registration = records.RegistrationRecord("directory", endpoints=(endpoint,))
        put = Put(records.registration_key(OTHER), records.encode(registration))
        result = await services.metadata.store.txn((), [put])
        await services.metadata.follower.reached(result.revision)
        assert await alter(services, (name, 0, [OTHER])) == [NONE]
        moving = {(name, 0): ([OTHER, own], [OTHER], [own])}
        assert await listed(services) == await listed(services, name) == moving
        assert await listed(services, "absent") == {}
        assert await listed(services, name, "absent", name) == moving
        assert services.metadata.image.topics[name].partitions[0].leader == own
        (refused,) = await alter(services, (name, 0, [own, OTHER]), may_change_factor=False)
        assert refused == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor is changed from 1 to 2",
        )
        assert await alter(services, (name, 0, None)) == [NONE]
        assert await listed(services) == {}
        assert services.metadata.image.topics[name].partitions[0].replicas == (own,)
