"""A client's access to a group's offsets, topic by topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
)
from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import describe_groups, offset_commit, offset_delete, offset_fetch
from oncelog_server.handlers.offset_commit import PART
from oncelog_server.security.authorizer import AllowAll
from oncelog_server.security.resources import Operation
from tests.server.handlers.nodes import Denying, ask, broker
from tests.server.transaction.world import World
from tests.server.transaction.world_clock import WorldClock

BY_NAME = 9
OPEN, SECRET = "open", "secret"


@asynccontextmanager
async def node_with_offsets() -> AsyncIterator[BrokerServices]:
    """Yield a broker that has a group with offset 7 committed in two topics. The client has no
    rights to the second topic any more."""
    world = World()
    async with broker() as bare:
        await bare.metadata.create_topics([NewTopic(OPEN), NewTopic(SECRET)])
        services = replace(bare, groups=world.groups, clock=WorldClock(world))
        partitions = [OffsetCommitRequestPartition(0, 7)]
        topics = [OffsetCommitRequestTopic(name, partitions=partitions) for name in (OPEN, SECRET)]
        request = OffsetCommitRequest("group", -1, topics=topics)
        response = await ask(offset_commit, services, request, BY_NAME)
        assert {topic.partitions[0].error_code for topic in response.topics} == {ErrorCode.NONE}
        denied = Denying((Operation.DESCRIBE, SECRET), (Operation.READ, SECRET))
        yield replace(services, authorizer=denied)


async def fetched(
    services: BrokerServices, topics: list[str] | None, version: int
) -> dict[str, tuple[int, int]]:
    """Return (error, offset) by topic."""
    images = services.metadata.image.topics
    wanted = None
    if topics is not None:
        wanted = [OffsetFetchRequestTopics(name, images[name].id, [0]) for name in topics]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=wanted)])
    (group,) = (await ask(offset_fetch, services, request, version)).groups
    names = {image.id: name for name, image in images.items()}
    return {
        topic.name or names[topic.topic_id]: (
            topic.partitions[0].error_code,
            topic.partitions[0].committed_offset,
        )
        for topic in group.topics
    }


async def test_a_large_offset_commit_is_split_and_each_partition_gets_a_response() -> None:
    world = World()
    async with broker() as bare:
        sizes = {"wide": PART + 7, "b": PART, "c": 1}
        await bare.metadata.create_topics([NewTopic(name, size) for name, size in sizes.items()])
        services = replace(bare, groups=world.groups, clock=WorldClock(world))
        topics = [
            OffsetCommitRequestTopic(
                name,
                partitions=[
                    OffsetCommitRequestPartition(number, 7 + number) for number in range(size + 1)
                ],
            )
            for name, size in sizes.items()
        ]
        request = OffsetCommitRequest("group", -1, topics=topics)
        response = await ask(offset_commit, services, request, BY_NAME)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert {topic.name: topic.partitions for topic in response.topics} == {
            name: [
                *(OffsetCommitResponsePartition(number, ErrorCode.NONE) for number in range(size)),
                OffsetCommitResponsePartition(size, missing),
            ]
            for name, size in sizes.items()
        }
        everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=None)])
        (group,) = (await ask(offset_fetch, services, everything, BY_NAME)).groups
        assert {
            topic.name: [partition.committed_offset for partition in topic.partitions]
            for topic in group.topics
        } == {name: [7 + number for number in range(size)] for name, size in sizes.items()}


async def test_offsets_of_a_topic_that_may_not_be_seen_are_left_out() -> None:
    denied = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    async with node_with_offsets() as services:
        for version in (BY_NAME, 10):
            assert await fetched(services, [SECRET, OPEN], version) == {
                OPEN: (0, 7),
                SECRET: denied,
            }
            assert await fetched(services, None, version) == {OPEN: (0, 7)}


async def test_offsets_of_a_topic_that_may_not_be_read_are_not_deleted() -> None:
    async with node_with_offsets() as services:
        partitions = [OffsetDeleteRequestPartition(0)]
        names = (SECRET, OPEN, "missing")
        topics = [OffsetDeleteRequestTopic(name, partitions) for name in names]
        response = await ask(offset_delete, services, OffsetDeleteRequest("group", topics))
        assert response.error_code == ErrorCode.NONE
        assert {topic.name: topic.partitions[0].error_code for topic in response.topics} == {
            OPEN: ErrorCode.NONE,
            SECRET: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        everything = replace(services, authorizer=AllowAll())
        assert await fetched(everything, None, BY_NAME) == {SECRET: (0, 7)}


async def test_offsets_of_a_partition_that_does_not_exist_are_not_deleted() -> None:
    """The result of a topic has its existing and its missing partitions."""
    async with node_with_offsets() as services:
        partitions = [OffsetDeleteRequestPartition(index) for index in (0, 7)]
        request = OffsetDeleteRequest("group", [OffsetDeleteRequestTopic(OPEN, partitions)])
        (topic,) = (await ask(offset_delete, services, request)).topics
        codes = {row.partition_index: row.error_code for row in topic.partitions}
        assert codes == {0: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_offsets_are_deleted_with_their_topic_and_a_recreated_topic_has_none() -> None:
    async with node_with_offsets() as denied:
        services = replace(denied, authorizer=AllowAll())
        services.metadata.subscribe(services.groups.follow)
        await services.metadata.delete_topics([SECRET])
        await services.metadata.create_topics([NewTopic(SECRET)])
        assert await fetched(services, None, BY_NAME) == {OPEN: (0, 7)}


async def test_offset_fetch_lists_all_offsets_of_a_repeated_group_once() -> None:
    async with node_with_offsets() as services:
        everything = OffsetFetchRequestGroup("group", topics=None)
        wanted = OffsetFetchRequestGroup(
            "group", topics=[OffsetFetchRequestTopics(OPEN, partition_indexes=[0])]
        )
        request = OffsetFetchRequest(groups=[everything, everything, wanted, wanted, everything])
        groups = (await ask(offset_fetch, services, request, BY_NAME)).groups
        assert [group.topics[0].partitions[0].committed_offset for group in groups] == [7, 7, 7]


async def test_a_repeated_group_is_described_once() -> None:
    async with node_with_offsets() as services:
        request = DescribeGroupsRequest(groups=["group", "other", "group", "group"])
        groups = (await ask(describe_groups, services, request)).groups
        assert [group.group_id for group in groups] == ["group", "other"]
