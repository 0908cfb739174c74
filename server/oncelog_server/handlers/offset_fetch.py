"""OffsetFetch v1-10: how far groups have read.

v2 all topics of a group; an error for the group. v5 leader epochs. v6 flexible. v7 only stable
offsets: those of an open transaction are UNSTABLE_OFFSET_COMMIT (KIP-447). v8 several groups
(KIP-709). v9 members of the consumer protocol. v10 topic ids.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.group.fetches import groups_asked_for, offset_fetch_response, refused_group
from oncelog_server.handlers.group_access import require_group
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation

API = ApiKey.OFFSET_FETCH
VERSIONS = range(1, 11)

TOPIC_IDS_SINCE: Final = 10


def handle(
    node: Node, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Deferred[OffsetFetchResponse]:
    wanted = groups_asked_for(request, context.api_version)
    answers = [_group(node, context, one, request.require_stable) for one in wanted]
    return then(
        gather(answers),
        lambda groups: offset_fetch_response(request, context.api_version, groups),
    )


def _group(
    node: Node, context: RequestContext, wanted: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup | Deferred[OffsetFetchResponseGroup]:
    try:
        require_group(node, context, Operation.DESCRIBE, wanted.group_id)
        unknown: list[OffsetFetchResponseTopics] = []
        if context.api_version >= TOPIC_IDS_SINCE:
            unknown = _names_for_ids(node, wanted)
        answer = node.groups.run(
            wanted.group_id,
            lambda shard: shard.offset_fetch(wanted, require_stable=require_stable),
        )
    except Refused as refused:
        return refused_group(wanted, refused.code)
    if context.api_version < TOPIC_IDS_SINCE:
        return answer
    return then(answer, lambda found: _with_ids(node, found, unknown))


def _names_for_ids(node: Node, wanted: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Give the topics asked for by id their names; the answers for those whose id is not known."""
    if wanted.topics is None:
        return []
    unknown = []
    known = []
    for topic in wanted.topics:
        topic.name = node.metadata.image.topic_name(topic.topic_id) or ""
        if topic.name:
            known.append(topic)
            continue
        partitions = [
            OffsetFetchResponsePartitions(
                index, -1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for index in topic.partition_indexes
        ]
        unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    wanted.topics = known
    return unknown


def _with_ids(
    node: Node, found: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics]
) -> OffsetFetchResponseGroup:
    """Topics by id; offsets of topics that are gone have none and are left out."""
    topics = []
    for topic in found.topics:
        image = node.metadata.image.topics.get(topic.name)
        if image is not None:
            topic.topic_id = image.id
            topics.append(topic)
    found.topics = topics + unknown
    return found
