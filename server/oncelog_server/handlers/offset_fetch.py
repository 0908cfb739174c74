"""OffsetFetch v1-10: the committed offsets of groups.

v2 all topics of a group; an error for the group. v5 leader epochs. v6 flexible. v7 only stable
offsets: UNSTABLE_OFFSET_COMMIT for an offset that an open transaction changes (KIP-447). v8 several
groups (KIP-709). v9 members of the consumer protocol. v10 topic ids.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.group.fetches import groups_asked_for, offset_fetch_response, refused_group
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.OFFSET_FETCH

TOPIC_IDS_SINCE: Final = 10


Answered = OffsetFetchResponse | Steps[OffsetFetchResponse]
Answer = Answered | Deferred[Answered]


def handle(
    services: BrokerServices, context: RequestContext, request: OffsetFetchRequest
) -> Answer | Steps[Answer]:
    wanted = _without_repetitions(groups_asked_for(request, context.api_version))
    return when_large(len(wanted), _steps(services, context, request, wanted))


def _steps(
    services: BrokerServices,
    context: RequestContext,
    request: OffsetFetchRequest,
    wanted: Sequence[OffsetFetchRequestGroup],
) -> Steps[Answer]:
    answers = []
    for group in wanted:
        answers.append(_group(services, context, group, request.require_stable))
        yield

    def response(groups: Sequence[OffsetFetchResponseGroup]) -> Answered:
        # Even the response for a single group may have many rows.
        rows = sum(1 + len(topic.partitions) for group in groups for topic in group.topics)
        return when_large(rows, offset_fetch_response(request, context.api_version, groups))

    return then(gather(answers), response)


def _without_repetitions(
    groups: Sequence[OffsetFetchRequestGroup],
) -> list[OffsetFetchRequestGroup]:
    """Return the groups, without repeated requests for all topics of a group. Repeated requests for
    named topics remain, because their response is as long as the request."""
    listed: set[str] = set()
    kept = []
    for group in groups:
        if group.topics is None:
            if group.group_id in listed:
                continue
            listed.add(group.group_id)
        kept.append(group)
    return kept


def _group(
    services: BrokerServices,
    context: RequestContext,
    wanted: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup | Deferred[OffsetFetchResponseGroup]:
    try:
        context.require(Operation.DESCRIBE, group=wanted.group_id)
        refused_topics = _refuse_topics(services, context, wanted)
        answer = services.groups.run(
            wanted.group_id,
            lambda shard: shard.offset_fetch(wanted, require_stable=require_stable),
        )
    except Refused as refused:
        return refused_group(wanted, refused.code)
    return then(answer, lambda found: _shown(services, context, found, refused_topics))


def _refuse_topics(
    services: BrokerServices, context: RequestContext, wanted: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Remove topics with an unknown id, and topics that the client may not describe, from `wanted`;
    return the responses for them. Set the names of topics that the request names by id."""
    if wanted.topics is None:
        return []
    by_id = context.api_version >= TOPIC_IDS_SINCE
    accepted, refused = [], []
    for topic in wanted.topics:
        if by_id:
            topic.name = services.metadata.image.topic_name(topic.topic_id) or ""
        if by_id and not topic.name:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not context.may(Operation.DESCRIBE, topic=topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            accepted.append(topic)
            continue
        partitions = [
            OffsetFetchResponsePartitions(index, -1, metadata="", error_code=code)
            for index in topic.partition_indexes
        ]
        refused.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
    wanted.topics = accepted
    return refused


def _shown(
    services: BrokerServices,
    context: RequestContext,
    found: OffsetFetchResponseGroup,
    refused: list[OffsetFetchResponseTopics],
) -> OffsetFetchResponseGroup:
    """Return the response of the coordinator without topics that the client may not describe, and
    with the refused topics. From v10 on, deleted topics are left out, because they have no id."""
    if found.error_code != ErrorCode.NONE:
        return found
    topics = [
        topic
        for topic in found.topics
        if context.may(Operation.DESCRIBE, topic=topic.name, logged=False)
    ]
    if context.api_version >= TOPIC_IDS_SINCE:
        images = services.metadata.image.topics
        topics = [topic for topic in topics if topic.name in images]
        for topic in topics:
            topic.topic_id = images[topic.name].id
    found.topics = topics + refused
    return found
