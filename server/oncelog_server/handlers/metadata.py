"""Metadata: brokers, topics and the leaders of their partitions. Creates requested topics that do
not exist (`auto.create.topics.enable`).

v0: an empty list requests all topics
v1: null requests all; controller, racks, internal topics
v2: cluster id
v3: throttle time
v4: a client may forbid auto-creation
v5: offline replicas
v6: LISTENER_NOT_FOUND instead of LEADER_NOT_AVAILABLE
v7: leader epochs (KIP-320)
v8: authorized operations (KIP-430)
v9: flexible
v10: topic ids in the response (KIP-516)
v11: no authorized operations of the cluster
v12: topics may be requested by id
v13: an error for the whole response (KIP-1102)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog_protocol.types import ZERO_UUID
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.cluster.topic_names import check_topic_name, is_internal
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.access import NOT_ASKED_FOR
from oncelog_server.security.resources import CLUSTER, Operation, Resource, ResourceType
from oncelog_server.slices import SMALL, Steps, when_large

API = ApiKey.METADATA

LISTENER_NOT_FOUND_SINCE: Final = 6
BY_ID_SINCE: Final = 12


Answered = MetadataResponse | Steps[MetadataResponse]


def handle(
    services: BrokerServices, context: RequestContext, request: MetadataRequest
) -> Answered | Deferred[Answered]:
    topics = request.topics
    if topics is None or (context.api_version == 0 and not topics):
        image = services.metadata.image
        size = _size(image, image.topics)
        return when_large(
            size, _response(services, context, request, _all_topics(services, context))
        )
    if context.api_version < BY_ID_SINCE and not all(map(_is_named, topics)):
        return _malformed(topics)
    topics = request.topics = _by_id(topics) or topics
    refused: dict[str, ErrorCode] = {}
    missing: list[str] = []
    for name in _auto_created(services, context, request, topics):
        if context.may(Operation.CREATE, CLUSTER, logged=False) or context.may(
            Operation.CREATE, topic=name
        ):
            missing.append(name)
        else:
            refused[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if missing:
        return services.spawn(_create_and_answer(services, context, request, missing, refused))
    return _asked_and_answered(services, context, request, topics, refused)


def _is_named(topic: MetadataRequestTopic) -> bool:
    return topic.name is not None and topic.topic_id == ZERO_UUID


def _by_id(topics: Iterable[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Return the topics with an id. As in Kafka, a request with any id asks for these alone."""
    return [topic for topic in topics if topic.topic_id != ZERO_UUID]


def _malformed(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """Return the response of Kafka to a request with an id or without a name, in a version in which
    each topic needs a name: no brokers, and an error for each topic."""
    code = ErrorCode.INVALID_REQUEST
    rows = [MetadataResponseTopic(code, topic.name or "", topic.topic_id) for topic in topics]
    return MetadataResponse(topics=rows)


def _asked_and_answered(
    services: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
    refused: dict[str, ErrorCode],
) -> Answered:
    image = services.metadata.image
    names = (topic.name or image.topic_name(topic.topic_id) or "" for topic in topics)
    rows = _topics(services, context, topics, refused)
    size = max(_size(image, names), len(topics))
    return when_large(size, _response(services, context, request, rows))


def _size(image: ClusterImage, names: Iterable[str]) -> int:
    """Return the number of partitions of these topics. A topic that does not exist counts as one.
    The count stops above SMALL, because the response is then large in any case."""
    size = 0
    for name in names:
        found = image.topics.get(name)
        size += 1 if found is None else len(found.partitions)
        if size > SMALL:
            break
    return size


def _all_topics(
    services: BrokerServices, context: RequestContext
) -> Steps[list[MetadataResponseTopic]]:
    """Return the topics that the client may describe."""
    found = []
    for topic in services.metadata.image.topics.values():
        if context.may(Operation.DESCRIBE, topic=topic.name, logged=False):
            found.append((yield from _topic(services, context, topic)))
    return found


def _auto_created(
    services: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
) -> list[str]:
    """Return the requested names that do not exist and may be created automatically."""
    if not (request.allow_auto_topic_creation and services.settings.auto_create_topics_enable):
        return []
    existing = services.metadata.image.topics
    names = [
        topic.name
        for topic in topics
        if topic.name is not None
        and topic.topic_id == ZERO_UUID
        and topic.name not in existing
        and context.may(Operation.DESCRIBE, topic=topic.name, logged=False)
    ]
    return list(dict.fromkeys(names))


async def _create_and_answer(
    services: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    missing: Sequence[str],
    refused: dict[str, ErrorCode],
) -> Answered:
    """Create the `missing` topics, and return the response with them. In Kafka the client has to
    send a second request to see them."""
    take = context.permits(is_strict=False)
    refused |= await services.metadata.missing_topics.create(missing, take)
    return _asked_and_answered(services, context, request, request.topics or (), refused)


def _topics(
    services: BrokerServices,
    context: RequestContext,
    wanted: Sequence[MetadataRequestTopic],
    refused: dict[str, ErrorCode],
) -> Steps[list[MetadataResponseTopic]]:
    found: dict[str | bytes | None, MetadataResponseTopic] = {}
    for topic in wanted:
        key = topic.name if topic.topic_id == ZERO_UUID else topic.topic_id
        if key not in found:
            found[key] = yield from _asked_for(services, context, topic, refused)
        yield
    return list(found.values())


def _asked_for(
    services: BrokerServices,
    context: RequestContext,
    wanted: MetadataRequestTopic,
    refused: dict[str, ErrorCode],
) -> Steps[MetadataResponseTopic]:
    image = services.metadata.image
    if wanted.topic_id != ZERO_UUID:
        name = image.topic_name(wanted.topic_id)
        if name is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        if not context.may(Operation.DESCRIBE, topic=name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(code, None, wanted.topic_id)
        return (yield from _topic(services, context, image.topics[name]))
    name = wanted.name
    if name is None:
        return MetadataResponseTopic(ErrorCode.INVALID_REQUEST, None)
    if not context.may(Operation.DESCRIBE, topic=name):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    if name in image.topics:
        return (yield from _topic(services, context, image.topics[name]))
    code = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        check_topic_name(name)
    except Refused as error:
        if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            code = error.code
    return MetadataResponseTopic(code, name, is_internal=is_internal(name))


def _topic(
    services: BrokerServices, context: RequestContext, topic: TopicImage
) -> Steps[MetadataResponseTopic]:
    partitions = []
    for state in services.views.states(topic, listener=context.listener_name):
        code = state.code
        if code is ErrorCode.LISTENER_NOT_FOUND and context.api_version < LISTENER_NOT_FOUND_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                code,
                state.partition,
                state.leader,
                state.leader_epoch,
                list(state.replicas),
                list(state.isr),
                list(state.offline_replicas),
            )
        )
        yield
    internal = is_internal(topic.name)
    return MetadataResponseTopic(ErrorCode.NONE, topic.name, topic.id, internal, partitions)


def _response(
    services: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    rows: Steps[list[MetadataResponseTopic]],
) -> Steps[MetadataResponse]:
    topics = yield from rows
    image = services.metadata.image
    operations = NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = 0
        if context.may(Operation.DESCRIBE, CLUSTER):
            operations = context.authorized_operations(CLUSTER)
    if request.include_topic_authorized_operations:
        for topic in topics:
            # Unknown topics have authorized operations too. Topics that the client may not describe
            # have none.
            denied = topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if topic.name is not None and not denied:
                resource = Resource(ResourceType.TOPIC, topic.name)
                topic.topic_authorized_operations = context.authorized_operations(resource)
                yield
    brokers = []
    for broker in (*image.brokers.values(), *services.metadata.recently_fenced()):
        endpoint = broker.endpoint(context.listener_name)
        if endpoint is not None:
            row = MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
            brokers.append(row)
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )
