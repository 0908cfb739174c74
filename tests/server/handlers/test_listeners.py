"""A broker without the listener of the client is left out of responses, as in Kafka: a client never
gets the address of another listener (KIP-103)."""

from __future__ import annotations

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_cluster import DescribeClusterRequest
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import (
    describe_cluster,
    describe_topic_partitions,
    find_coordinator,
    metadata,
)
from oncelog_server.handlers.current_leaders import CurrentLeaders
from tests.server.handlers.nodes import ask, broker

# The broker of the tests has the listeners PLAINTEXT and EXTERNAL.
MISSING = "SECURED"


@pytest.mark.parametrize("version", APIS[metadata.API].versions)
@pytest.mark.parametrize("asks_for_all", [True, False])
async def test_a_leader_without_the_listener_has_an_error_code(
    version: int, asks_for_all: bool
) -> None:
    expected = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    names = None if asks_for_all and version > 0 else [MetadataRequestTopic(name="orders")]
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("orders")])
        response = await ask(metadata, services, MetadataRequest(names), version, MISSING)
        assert response.brokers == []
        (topic,) = response.topics
        assert topic.error_code == ErrorCode.NONE
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id) == (expected, -1)
        assert partition.replica_nodes == [1]
        if version >= 5:
            assert partition.offline_replicas == [1]


async def test_a_page_of_partitions_shows_no_leader_without_the_listener() -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("orders")], 10)
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("orders")])
        response = await ask(describe_topic_partitions, services, request, listener=MISSING)
        (partition,) = response.topics[0].partitions
        assert partition.error_code == ErrorCode.LISTENER_NOT_FOUND
        assert (partition.leader_id, partition.offline_replicas) == (-1, [1])


@pytest.mark.parametrize("version", APIS[find_coordinator.API].versions)
async def test_a_coordinator_without_the_listener_is_not_available(version: int) -> None:
    request = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])
    async with broker() as services:
        response = await ask(find_coordinator, services, request, version, MISSING)
        found = response if version < 4 else response.coordinators[0]
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (found.node_id, found.host, found.port) == (-1, "", -1)


async def test_no_other_response_has_an_address_of_another_listener() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("orders")])
        cluster = await ask(describe_cluster, services, DescribeClusterRequest(), listener=MISSING)
        assert cluster.brokers == []
        leaders = CurrentLeaders(services, MISSING)
        assert leaders.of("orders", 0) == (1, 0)
        assert leaders.endpoints == {}
