"""Metadata, DescribeTopicPartitions, DescribeCluster and ApiVersions show the cluster as it is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.describe_cluster import DescribeClusterRequest
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.types import ZERO_UUID
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.members import Registration
from oncelog_server.cluster.records import EndpointRecord
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import (
    api_versions,
    describe_cluster,
    describe_topic_partitions,
    metadata,
)
from oncelog_server.security.resources import Operation
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import Denying, ask, broker, context


def by_name(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("version", APIS[metadata.API].versions)
async def test_metadata_creates_a_requested_topic_and_returns_it_at_once(version: int) -> None:
    async with broker(Settings(num_partitions=3)) as services:
        response = await ask(metadata, services, MetadataRequest(by_name("orders")), version)
        (topic,) = response.topics
        assert topic.error_code == ErrorCode.NONE
        assert topic.name == "orders"
        assert [partition.leader_id for partition in topic.partitions] == [1, 1, 1]
        assert [partition.isr_nodes for partition in topic.partitions] == [[1]] * 3
        (node,) = response.brokers
        assert (node.node_id, node.host, node.port) == (1, "inside", 9092)
        if version >= 10:
            assert topic.topic_id == services.metadata.image.topics["orders"].id
        if version >= 7:
            assert topic.partitions[0].leader_epoch == 0


async def test_clients_get_the_address_of_their_listener() -> None:
    async with broker() as services:
        response = await ask(metadata, services, MetadataRequest([]), listener="EXTERNAL")
        assert (response.brokers[0].host, response.brokers[0].port) == ("outside", 19092)
        assert response.topics == []
        assert response.controller_id == 1
        assert response.cluster_id == services.cluster_id


@pytest.mark.parametrize(
    ("settings", "allowed", "version"),
    [(Settings(auto_create_topics_enable=False), True, 12), (Settings(), False, 4)],
)
async def test_no_topic_is_created_if_auto_creation_is_disabled(
    settings: Settings, allowed: bool, version: int
) -> None:
    async with broker(settings) as services:
        request = MetadataRequest(by_name("orders", "a b"), allow_auto_topic_creation=allowed)
        response = await ask(metadata, services, request, version)
        assert [topic.error_code for topic in response.topics] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]
        assert not services.metadata.image.topics


async def test_each_topic_that_cannot_be_created_has_an_error_code() -> None:
    async with broker() as services:
        request = MetadataRequest(by_name("a b", "fine", "a.b"))
        await services.metadata.create_topics([NewTopic("a_b")])
        response = await ask(metadata, services, request)
        assert [topic.error_code for topic in response.topics] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.NONE,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]


async def test_topics_by_id() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("orders")])
        known = services.metadata.image.topics["orders"].id
        request = MetadataRequest(
            [MetadataRequestTopic(known, None), MetadataRequestTopic(b"x" * 16, None)]
        )
        found, unknown = (await ask(metadata, services, request)).topics
        assert (found.name, found.error_code) == ("orders", ErrorCode.NONE)
        assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
        assert unknown.topic_id == b"x" * 16
        early = await ask(
            metadata, services, MetadataRequest([MetadataRequestTopic(known, "")]), 10
        )
        assert early.topics[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_request_for_all_topics_has_null_or_in_version_0_an_empty_list() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("b")])
        everything = await ask(metadata, services, MetadataRequest(None), 1)
        assert {topic.name for topic in everything.topics} == {"a", "b"}
        assert len((await ask(metadata, services, MetadataRequest([]), 0)).topics) == 2
        assert (await ask(metadata, services, MetadataRequest([]), 1)).topics == []


async def test_topics_a_client_may_not_see() -> None:
    denied = Denying((Operation.DESCRIBE, "secret"))
    async with broker(authorizer=denied) as services:
        await services.metadata.create_topics([NewTopic("secret"), NewTopic("open")])
        everything = await ask(metadata, services, MetadataRequest(None))
        assert [topic.name for topic in everything.topics] == ["open"]
        (topic,) = (await ask(metadata, services, MetadataRequest(by_name("secret")))).topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert topic.topic_id == ZERO_UUID


async def test_a_topic_is_not_created_without_the_right_to_create_it() -> None:
    denied = Denying((Operation.CREATE, "orders"), (Operation.CREATE, "kafka-cluster"))
    async with broker(authorizer=denied) as services:
        await ask(metadata, services, MetadataRequest(by_name("orders")))
        assert not services.metadata.image.topics


async def test_internal_topics_are_marked_and_created_with_their_settings() -> None:
    async with broker() as services:
        request = MetadataRequest(by_name("__consumer_offsets"))
        (topic,) = (await ask(metadata, services, request)).topics
        assert topic.is_internal
        assert len(topic.partitions) == 50


async def test_a_partition_with_an_unusable_log_has_no_leader() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("orders", 2)])
        services.partitions.add_offline(TopicPartition("orders", 1), "corrupt")
        (topic,) = (await ask(metadata, services, MetadataRequest(by_name("orders")))).topics
        good, bad = topic.partitions
        assert (good.leader_id, good.offline_replicas) == (1, [])
        assert (bad.leader_id, bad.offline_replicas) == (-1, [1])
        assert bad.error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_authorized_operations_are_bits() -> None:
    denied = Denying((Operation.WRITE, "orders"))
    async with broker(authorizer=denied) as services:
        request = MetadataRequest(by_name("orders"), include_topic_authorized_operations=True)
        (topic,) = (await ask(metadata, services, request)).topics
        assert topic.topic_authorized_operations == 0b110111101000
        silent = (await ask(metadata, services, MetadataRequest(by_name("orders")))).topics[0]
        assert silent.topic_authorized_operations == -(2**31)


async def describe(
    services: BrokerServices, **request: Any
) -> tuple[list[tuple[str, int, int]], object]:
    """Return (topic, error, number of partitions) of each topic, and the next cursor."""
    response = await ask(
        describe_topic_partitions,
        services,
        DescribeTopicPartitionsRequest(**request),
    )
    topics = [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics]
    cursor = response.next_cursor
    return topics, cursor and (cursor.topic_name, cursor.partition_index)


async def test_partitions_come_page_by_page() -> None:
    async with broker() as services:
        await services.metadata.create_topics(
            [NewTopic("b", 3), NewTopic("a", 2), NewTopic("c", 1)]
        )
        assert await describe(services) == ([("a", 0, 2), ("b", 0, 3), ("c", 0, 1)], None)
        first = await describe(services, response_partition_limit=4)
        assert first == ([("a", 0, 2), ("b", 0, 2)], ("b", 2))
        rest = await describe(services, cursor=RequestCursor("b", 2))
        assert rest == ([("b", 0, 1), ("c", 0, 1)], None)
        full = await describe(services, response_partition_limit=2)
        assert full == ([("a", 0, 2)], ("b", 0))


async def test_partitions_of_topics_by_name() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a", 2)])
        wanted = [TopicRequest("a"), TopicRequest("zzz"), TopicRequest("a b")]
        topics, _ = await describe(services, topics=wanted)
        assert topics == [
            ("a", 0, 2),
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
            ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        ]
        for cursor in (RequestCursor("q", 0), RequestCursor("a", -1)):
            topics, _ = await describe(services, topics=[TopicRequest("a")], cursor=cursor)
            assert topics == [("a", ErrorCode.INVALID_REQUEST, 0)]


async def test_describing_the_cluster() -> None:
    async with broker() as services:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await ask(describe_cluster, services, request, listener="EXTERNAL")
        assert (response.cluster_id, response.controller_id) == (services.cluster_id, 1)
        assert [(broker.broker_id, broker.host) for broker in response.brokers] == [(1, "outside")]
        assert response.cluster_authorized_operations > 0
        for kind, code in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            asked = await ask(
                describe_cluster, services, DescribeClusterRequest(endpoint_type=kind)
            )
            assert asked.error_code == code


async def test_fenced_brokers_are_described_only_on_request() -> None:
    async with broker() as services:
        image = services.metadata.image
        away = (EndpointRecord("EXTERNAL", "away", 9092),)
        fenced = Registration(7, 5, 5, "directory", away, "r", 0, "", False, ())
        registrations = {**image.registrations, 7: fenced}
        services.metadata.follower.image = structs.replace(image, registrations=registrations)
        for listener, included, shown in (
            ("EXTERNAL", False, [(1, False)]),
            ("EXTERNAL", True, [(1, False), (7, True)]),
            ("PLAINTEXT", True, [(1, False)]),
        ):
            request = DescribeClusterRequest(include_fenced_brokers=included)
            response = await ask(describe_cluster, services, request, listener=listener)
            assert [(found.broker_id, found.is_fenced) for found in response.brokers] == shown


async def test_metadata_lists_a_broker_that_was_fenced_just_now() -> None:
    async with broker() as services:
        alive = services.metadata.image.brokers[1]
        services.metadata.recently_fenced = lambda: [structs.replace(alive, id=2)]
        response = await ask(metadata, services, MetadataRequest([]))
        assert [found.node_id for found in response.brokers] == [1, 2]
        request = DescribeClusterRequest()
        described = await ask(describe_cluster, services, request)
        assert [found.broker_id for found in described.brokers] == [1]


async def test_a_fenced_broker_still_lists_its_apis() -> None:
    """Such a broker is not in its own image, and closed every new connection."""
    async with broker() as services:
        services.versions = {ApiKey.METADATA: range(0, 14)}
        image = services.metadata.image
        services.metadata.follower.image = structs.replace(image, brokers={})
        response = await ask(api_versions, services, from_client())
        assert response.error_code == ErrorCode.NONE
        assert response.supported_features


async def test_eligible_leader_replicas_are_described() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("t")])
        image = services.metadata.image
        topic = image.topics["t"]
        changed = structs.replace(
            topic.partitions[0], isr=(), elr=(2, 3), last_known_elr=(1,), leader=NO_LEADER
        )
        topics = {"t": structs.replace(topic, partitions=(changed,))}
        services.metadata.follower.image = structs.replace(image, topics=topics)
        request = DescribeTopicPartitionsRequest([TopicRequest("t")])
        response = await ask(describe_topic_partitions, services, request)
        (partition,) = response.topics[0].partitions
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([2, 3], [1])
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def from_client(**fields: Any) -> ApiVersionsRequest:
    return ApiVersionsRequest("test", "1.0", **fields)


async def test_api_versions_lists_apis_with_a_handler_and_produce_from_version_0() -> None:
    async with broker() as services:
        services.versions = {ApiKey.METADATA: range(0, 14), ApiKey.PRODUCE: range(3, 14)}
        response = await ask(api_versions, services, from_client())
        shown = [
            (api_key.api_key, api_key.min_version, api_key.max_version)
            for api_key in response.api_keys
        ]
        assert shown == [(0, 0, 13), (3, 0, 13)]


OURS = ("oncelog.group.transactions", 1, 1)


@pytest.mark.parametrize(
    ("version", "supported"), [(3, [OURS]), (4, [("transaction.version", 0, 2), OURS])]
)
async def test_supported_features_that_begin_at_0_are_hidden_from_older_clients(
    version: int, supported: list[tuple[str, int, int]]
) -> None:
    async with broker() as services:
        response = await ask(api_versions, services, from_client(), version)
        assert [
            (supported_feature.name, supported_feature.min_version, supported_feature.max_version)
            for supported_feature in response.supported_features
        ] == supported
        assert [
            (finalized_feature.name, finalized_feature.max_version_level)
            for finalized_feature in response.finalized_features
        ] == [
            ("transaction.version", 2),
            ("oncelog.group.transactions", 1),
        ]
        assert response.finalized_features_epoch > 0


async def test_an_unsupported_version_gets_the_supported_versions() -> None:
    async with broker() as services:
        response = api_versions.handle(services, context(services, ApiKey.API_VERSIONS, 99), None)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        (own,) = response.api_keys
        assert (own.api_key, own.min_version, own.max_version) == (18, 0, 5)


async def test_a_client_that_names_another_cluster_or_broker_is_refused() -> None:
    async with broker() as services:
        for wrong in ({"cluster_id": "another"}, {"node_id": 7}):
            request = from_client(**wrong)
            response = await ask(api_versions, services, request)
            assert response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
        right = from_client(cluster_id=services.cluster_id, node_id=1)
        assert (await ask(api_versions, services, right)).error_code == ErrorCode.NONE


async def test_a_client_with_an_invalid_name_is_refused() -> None:
    async with broker() as services:
        request = ApiVersionsRequest(client_software_name="", client_software_version="1")
        assert (await ask(api_versions, services, request)).error_code == ErrorCode.INVALID_REQUEST
        assert (await ask(api_versions, services, request, 2)).error_code == ErrorCode.NONE
