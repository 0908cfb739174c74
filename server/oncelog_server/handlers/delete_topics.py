"""DeleteTopics.

v1, v2: topics by name
v3: TOPIC_DELETION_DISABLED
v4: flexible
v5: error messages; THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6: topics by id, too (KIP-516)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncelog_protocol.types import ZERO_UUID
from oncelog_server.broker_services import BrokerServices
from oncelog_server.default_messages import message_of
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.DELETE_TOPICS

DISABLED_SINCE: Final = 3
STRICT_SINCE: Final = 5
STATES_SINCE: Final = 6


Answer = DeleteTopicsResponse | Deferred[DeleteTopicsResponse]


class _Choice(NamedTuple):
    """The ids of the topics to delete, by name, and the results of the others. `named` are those of
    the names that the request has; it has the ids of the other topics."""

    ids: dict[str, bytes]
    named: set[str]
    results: list[DeletableTopicResult]


def handle(
    services: BrokerServices, context: RequestContext, request: DeleteTopicsRequest
) -> Answer | Steps[Answer]:
    wanted = request.topics
    if context.api_version < STATES_SINCE:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    if not services.metadata.may_be_stale:
        return when_large(len(wanted), _steps(services, context, wanted))

    def caught_up(failed: Refused | None) -> Answer:
        if failed is not None:
            return DeleteTopicsResponse(
                responses=[_result(topic.name, topic.topic_id, failed) for topic in wanted]
            )
        chosen = services.slices.run(_choose(services, context, wanted))
        return then_ask(chosen, lambda choice: _delete(services, context, choice))

    return then_ask(services.spawn(services.metadata.catch_up()), caught_up)


def _steps(
    services: BrokerServices, context: RequestContext, wanted: Sequence[DeleteTopicState]
) -> Steps[Answer]:
    choice = yield from _choose(services, context, wanted)
    return _delete(services, context, choice)


def _choose(
    services: BrokerServices, context: RequestContext, wanted: Sequence[DeleteTopicState]
) -> Steps[_Choice]:
    times = Counter((topic.name, topic.topic_id) for topic in wanted)
    results: list[DeletableTopicResult] = []
    ids: dict[str, bytes] = {}
    named: set[str] = set()
    for (name, topic_id), count in times.items():
        yield
        try:
            known = _resolve(services, context, name, topic_id, count)
            # `_resolve` has refused clients that may not describe the topic. So this client may
            # learn that the topic does not exist, as in Kafka.
            if known not in services.metadata.image.topics:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if not _may_delete(context, known):
                # The client may describe the topic. So the response has the topic's name, even if
                # the request has only its id.
                denied = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                results.append(_result(known, topic_id, denied))
                continue
            if known in ids:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except Refused as refused:
            results.append(_result(name, topic_id, refused))
        else:
            ids[known] = services.metadata.image.topics[known].id
            if name is not None:
                named.add(name)
    return _Choice(ids, named, results)


def _delete(services: BrokerServices, context: RequestContext, choice: _Choice) -> Answer:
    ids, named, results = choice
    take = context.permits(is_strict=context.api_version >= STRICT_SINCE)
    deleted = services.spawn(services.metadata.delete_topics(list(ids), take, ids))

    def answer(outcomes: list[Refused | None]) -> DeleteTopicsResponse:
        made = [
            _outcome(name if name in named else None, name, topic_id, outcome)
            for (name, topic_id), outcome in zip(ids.items(), outcomes, strict=True)
        ]
        return DeleteTopicsResponse(responses=results + made)

    return then_ask(deleted, answer)


def _resolve(
    services: BrokerServices, context: RequestContext, name: str | None, topic_id: bytes, times: int
) -> str:
    """Return the name of the topic to delete. `times` is the number of times that the request names
    it. Raises Refused. For a topic name that the client may not describe, the error does not depend
    on the existence of the topic."""
    if not services.settings.delete_topic_enable:
        if context.api_version < DISABLED_SINCE:
            raise Refused(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    by_id = topic_id != ZERO_UUID
    if name is None and not by_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and by_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if times > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if by_id else 'name'}.")
    known = services.metadata.image.topic_name(topic_id) if by_id else name
    if known is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    # A principal that may delete the cluster may delete every topic.
    if not context.may(Operation.DELETE, CLUSTER, logged=False):
        context.require(Operation.DESCRIBE, topic=known)
    return known


def _may_delete(context: RequestContext, name: str) -> bool:
    return context.may(Operation.DELETE, CLUSTER, logged=False) or context.may(
        Operation.DELETE, topic=name
    )


def _outcome(
    asked: str | None, name: str, topic_id: bytes, outcome: Refused | None
) -> DeletableTopicResult:
    """Return the result of a topic that was known before its deletion. `asked` is its name in the
    request, None if the request has its id. Another broker may have deleted the topic meanwhile,
    and may have created another one with its name."""
    if outcome is None or outcome.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return _result(name, topic_id, outcome)
    if asked is None:
        return _result(None, topic_id, Refused(ErrorCode.UNKNOWN_TOPIC_ID))
    return _result(asked, ZERO_UUID, outcome)


def _result(name: str | None, topic_id: bytes, refused: Refused | None) -> DeletableTopicResult:
    if refused is None:
        return DeletableTopicResult(name, topic_id)
    return DeletableTopicResult(name, topic_id, refused.code, message_of(refused))
