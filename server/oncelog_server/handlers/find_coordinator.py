"""FindCoordinator v0-6: the coordinator of a group or a transactional id.

v1 transactional ids; up to v5 also the coordinator of a group's transactions (a key type that only
oncelog has). v3 flexible. v4 several keys at once (KIP-699). v5 TRANSACTION_ABORTABLE. v6 share
groups, which are not served.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import TRANSACTION_GROUP_KEY_TYPE
from oncelog_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.coordinator.routing import routing_of
from oncelog_server.default_messages import message_of
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.topic_partition import TopicPartition

API = ApiKey.FIND_COORDINATOR

MANY_KEYS_SINCE: Final = 4
UNKNOWN: Final = -1
GROUP: Final = 0
TRANSACTION: Final = 1
# Only oncelog has this key type, up to v5: the coordinator of a group's transactions (KIP-447,
# early draft).
TRANSACTION_GROUP: Final = TRANSACTION_GROUP_KEY_TYPE
SHARE_GROUPS_SINCE: Final = 6
# Key type -> the internal topic, and the type of the resource that the client must be allowed to
# describe.
KEY_TYPES: Final = {
    GROUP: (CONSUMER_OFFSETS, ResourceType.GROUP),
    TRANSACTION: (TRANSACTION_STATE, ResourceType.TRANSACTIONAL_ID),
    TRANSACTION_GROUP: (TRANSACTION_STATE, ResourceType.GROUP),
}


def handle(
    services: BrokerServices, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Deferred[FindCoordinatorResponse]:
    keys = request.coordinator_keys
    if context.api_version < MANY_KEYS_SINCE:
        keys = [request.key]
    key_type = request.key_type
    if key_type == TRANSACTION_GROUP and not (
        services.has_group_transactions and context.api_version < SHARE_GROUPS_SINCE
    ):
        key_type = UNKNOWN
    kind = KEY_TYPES.get(key_type)
    if (
        kind is not None
        and kind[0] not in services.metadata.image.topics
        and any(
            context.may(Operation.DESCRIBE, Resource(kind[1], key), logged=False) for key in keys
        )
    ):
        return services.spawn(_create_and_find(services, context, key_type, keys))
    return _response(context, [_find(services, context, key_type, key) for key in keys])


async def _create_and_find(
    services: BrokerServices, context: RequestContext, key_type: int, keys: list[str]
) -> FindCoordinatorResponse:
    """Create the internal topic of `key_type`, and return the coordinators of the keys."""
    with suppress(Refused):
        # If the creation fails, `_find` refuses each key with COORDINATOR_NOT_AVAILABLE.
        await services.metadata.missing_topics.create_one(KEY_TYPES[key_type][0])
    return _response(context, [_find(services, context, key_type, key) for key in keys])


def _find(
    services: BrokerServices, context: RequestContext, key_type: int, key: str
) -> Coordinator:
    try:
        return _leader(services, context, key_type, key)
    except Refused as refused:
        return Coordinator(
            key=key,
            node_id=-1,
            port=-1,
            error_code=refused.code,
            error_message=message_of(refused),
        )


def _leader(
    services: BrokerServices, context: RequestContext, key_type: int, key: str
) -> Coordinator:
    """Return the leader of the key's partition in the internal topic. Raises Refused if the client
    may not describe the key or if there is no leader."""
    if key_type not in KEY_TYPES:
        raise Refused(ErrorCode.INVALID_REQUEST)
    topic_name, resource_type = KEY_TYPES[key_type]
    context.require(Operation.DESCRIBE, Resource(resource_type, key))
    image = services.metadata.image
    topic = image.topics.get(topic_name)
    if topic is None:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic_name} could not be created")
    partition_of = routing_of(absolute_hash=image.absolute_hash)
    partition = topic.partitions[partition_of(key, len(topic.partitions))]
    leader = services.views.leader_of(topic_name, partition)
    broker = image.brokers.get(leader)
    endpoint = None if broker is None else broker.endpoint(context.listener_name)
    if endpoint is None:
        # As in Kafka, this is also the code if the leader does not have the client's listener.
        name = TopicPartition(topic_name, partition.partition)
        reason = services.views.partitions.offline_reason(name)
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason or "")
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _response(context: RequestContext, found: list[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    (coordinator,) = found
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or ErrorCode.NONE.name,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )
