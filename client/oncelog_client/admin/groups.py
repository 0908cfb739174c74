"""Groups: list, describe, delete, and their committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from oncelog_client.admin.group_descriptions import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from oncelog_client.admin.live_brokers import live_brokers
from oncelog_client.admin.row_retries import change_each
from oncelog_client.core.arguments import texts
from oncelog_client.core.refusal_texts import refusal_text
from oncelog_client.errors import check
from oncelog_client.io.cluster import Cluster, CoordinatorType
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncelog_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from oncelog_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_DEAD = "Dead"


async def list_groups(
    cluster: Cluster, states: Iterable[str], timeout_ms: int
) -> list[GroupListing]:
    request = ListGroupsRequest(states_filter=texts("states", states))

    async def attempt() -> list[GroupListing]:
        responses = await asyncio.gather(
            *(
                cluster.call(node_id, request, ListGroupsResponse)
                for node_id in await live_brokers(cluster)
            )
        )
        found: dict[str, GroupListing] = {}
        for response in responses:
            check(response.error_code)
            for row in response.groups:
                found[row.group_id] = GroupListing(
                    row.group_id, row.protocol_type, row.group_state, row.group_type
                )
        return sorted(found.values(), key=lambda group: group.group_id)

    return await cluster.retry(attempt, timeout_ms)


async def describe_groups(
    cluster: Cluster, group_ids: Iterable[str], timeout_ms: int
) -> dict[str, GroupDescription]:
    async def describe(group_id: str) -> GroupDescription:
        async def attempt() -> GroupDescription:
            response = await cluster.call_coordinator(
                CoordinatorType.GROUP,
                group_id,
                DescribeGroupsRequest(groups=[group_id]),
                DescribeGroupsResponse,
            )
            group = next(row for row in response.groups if row.group_id == group_id)
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                # From v6 on the response for a missing group is an error. In older versions it is a
                # dead group.
                group = DescribedGroup(group_id=group_id, group_state=_DEAD)
            check(group.error_code, refusal_text(group.error_code, group_id, group.error_message))
            node_id = await cluster.coordinator(CoordinatorType.GROUP, group_id)
            return GroupDescription(
                group_id,
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                cluster.metadata.brokers[node_id],
                tuple(_member(group.protocol_type, member) for member in group.members),
            )

        return await cluster.ask_coordinator(CoordinatorType.GROUP, group_id, attempt, timeout_ms)

    names = texts("group_ids", group_ids)
    described = await asyncio.gather(*map(describe, names))
    return dict(zip(names, described, strict=True))


def _member(protocol_type: str, member: DescribedGroupMember) -> MemberDescription:
    # Imported here, because a list of groups does not need this code.
    from oncelog_client.core.group_protocol import decode_assignment
    from oncelog_client.core.membership import PROTOCOL_TYPE

    assignment: tuple[TopicPartition, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        try:
            assignment = decode_assignment(member.member_assignment)
        except ProtocolError:
            # The coordinator does not check the format of assignments, and some clients have their
            # own format.
            assignment = ()
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        assignment,
    )


async def delete_groups(cluster: Cluster, group_ids: Iterable[str], timeout_ms: int) -> None:
    async def delete(group_id: str) -> None:
        async def attempt() -> None:
            response = await cluster.call_coordinator(
                CoordinatorType.GROUP,
                group_id,
                DeleteGroupsRequest(groups_names=[group_id]),
                DeleteGroupsResponse,
            )
            for row in response.results:
                check(row.error_code, refusal_text(row.error_code, row.group_id, row.error_message))

        await cluster.ask_coordinator(CoordinatorType.GROUP, group_id, attempt, timeout_ms)

    await change_each(texts("group_ids", group_ids), delete)


async def delete_group_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: int
) -> None:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic)).partitions.append(
            OffsetDeleteRequestPartition(partition_index=partition)
        )
    request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

    async def attempt() -> None:
        response = await cluster.call_coordinator(
            CoordinatorType.GROUP, group_id, request, OffsetDeleteResponse
        )
        check(response.error_code, group_id)
        for topic in response.topics:
            for row in topic.partitions:
                check(row.error_code, f"{topic.name}-{row.partition_index}")

    await cluster.ask_coordinator(CoordinatorType.GROUP, group_id, attempt, timeout_ms)
