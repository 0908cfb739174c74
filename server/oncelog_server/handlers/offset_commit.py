"""OffsetCommit v2-10: commit a group's offsets.

v2-4 retention time. v6 leader epochs (KIP-320). v7 static members (KIP-345). v8 flexible. v9 errors
of the consumer protocol (KIP-848). v10 topic ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.handlers.committed_topics import (
    Codes,
    all_with,
    answered,
    codes_of,
    refuse_unknown,
    size_of,
)
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.OFFSET_COMMIT

TOPIC_IDS_SINCE: Final = 10
# Maximum number of partitions in one turn of the loop. Writing their offsets takes about 10 ms.
PART: Final = 500


Answered = OffsetCommitResponse | Steps[OffsetCommitResponse]
Answer = Answered | Deferred[Answered]


def handle(
    services: BrokerServices, context: RequestContext, request: OffsetCommitRequest
) -> Answer | Steps[Answer]:
    return when_large(size_of(request.topics), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: OffsetCommitRequest
) -> Steps[Answer]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    try:
        context.require(Operation.READ, group=request.group_id)
    except Refused as error:
        return _response(request, all_with(request.topics, error.code))
    accepted, refused = yield from refuse_unknown(services, context, request.topics, by_id=by_id)
    if not accepted:
        # As in Kafka, the coordinator does not get this request, so the member's session is not
        # renewed.
        return _response(request, refused)
    answers: list[Codes | Deferred[Codes]] = []
    for part in _parts(accepted):
        answers.append(_commit(services, context, request, part))
        yield
    return then(gather(answers), lambda codes: _response(request, _united(codes) | refused))


def _parts(topics: Sequence[OffsetCommitRequestTopic]) -> Iterator[list[OffsetCommitRequestTopic]]:
    """Yield the topics in lists of up to PART partitions. A large commit is split, because each
    record takes 20 microseconds. It may be split, because a commit is not atomic over its
    partitions."""
    part: list[OffsetCommitRequestTopic] = []
    left = PART
    for topic in topics:
        rest = topic.partitions
        while rest:
            piece = copy(topic)
            piece.partitions, rest = rest[:left], rest[left:]
            part.append(piece)
            left -= len(piece.partitions)
            if not left:
                yield part
                part, left = [], PART
    if part:
        yield part


def _commit(
    services: BrokerServices,
    context: RequestContext,
    request: OffsetCommitRequest,
    part: list[OffsetCommitRequestTopic],
) -> Codes | Deferred[Codes]:
    wanted = copy(request)
    wanted.topics = part
    try:
        answer = services.groups.run(
            request.group_id, lambda shard: shard.offset_commit(wanted, caller(services, context))
        )
    except Refused as error:
        return all_with(part, error.code)
    return then(answer, lambda found: answered(found.topics))


def _united(codes: Sequence[Codes]) -> Codes:
    if len(codes) == 1:
        return codes[0]
    return {key: code for some in codes for key, code in some.items()}


def _response(request: OffsetCommitRequest, codes: Codes) -> Answered:
    return when_large(size_of(request.topics), _response_steps(request, codes))


def _response_steps(request: OffsetCommitRequest, codes: Codes) -> Steps[OffsetCommitResponse]:
    topics = []
    for topic in request.topics:
        rows = [
            OffsetCommitResponsePartition(index, code) for index, code in codes_of(topic, codes)
        ]
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, rows))
        yield
    return OffsetCommitResponse(topics=topics)
