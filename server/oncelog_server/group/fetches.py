"""Serves OffsetFetch: the committed offsets of a group. With `require_stable`, a partition with an
offset in an open transaction gets UNSTABLE_OFFSET_COMMIT (KIP-447).

Source: Kafka's OffsetMetadataManager.fetchOffsets. From v8 on, a request names several groups
(KIP-709). The groups may be in several shards, so a shard responds for a single group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from oncelog_server.group.offsets import Offsets
from oncelog_server.slices import Steps

_MANY_GROUPS_SINCE: Final = 8
_GROUP_ERROR_SINCE: Final = 2
_NO_OFFSET: Final = -1


def fetch_group(
    offsets: Offsets, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the requested offsets. If the request names no topics, return all offsets. An unknown
    group has no offsets."""
    topics = request.topics
    if topics is None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
            for name, partitions in offsets.of_group(request.group_id).items()
        ]
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _partition(offsets, request.group_id, topic.name, index, require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ],
    )


def _partition(
    offsets: Offsets, group_id: str, topic: str, index: int, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if require_stable and offsets.has_pending(group_id, topic, index):
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=_NO_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    committed = offsets.committed(group_id, topic, index)
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=_NO_OFFSET, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def groups_asked_for(
    request: OffsetFetchRequest, api_version: int
) -> Sequence[OffsetFetchRequestGroup]:
    """Return the request in the form of version 8: a list of groups."""
    if api_version >= _MANY_GROUPS_SINCE:
        return request.groups
    topics = request.topics
    return [
        OffsetFetchRequestGroup(
            group_id=request.group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in topics
            ],
        )
    ]


def refused_group(request: OffsetFetchRequestGroup, code: int) -> OffsetFetchResponseGroup:
    """Return the response for a group that is not authorized, or not coordinated here."""
    return OffsetFetchResponseGroup(group_id=request.group_id, error_code=code)


def offset_fetch_response(
    request: OffsetFetchRequest, api_version: int, groups: Sequence[OffsetFetchResponseGroup]
) -> Steps[OffsetFetchResponse]:
    """Return the response with all groups, in the form of the request's version."""
    if api_version >= _MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=list(groups))
    (group,) = groups
    response = OffsetFetchResponse(error_code=group.error_code)
    if group.error_code and api_version < _GROUP_ERROR_SINCE:
        # Version 1 has no error field for the group, so each partition has the error.
        response.topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=_NO_OFFSET,
                        metadata="",
                        error_code=group.error_code,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
        return response
    for topic in group.topics:
        rows = []
        for partition in topic.partitions:
            rows.append(
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
            )
            yield
        response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=rows))
        yield
    return response
