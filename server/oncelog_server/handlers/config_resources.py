"""The resources of config requests, and the authorization to see or change them (KIP-133)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_configs import AlterConfigsResource
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_alterations import refuse_missing
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation


class ConfigResource(IntEnum):
    """The types of Kafka's ConfigResource.Type that have settings here."""

    TOPIC = 2
    BROKER = 4


# The resource of AlterConfigs or IncrementalAlterConfigs.
R = TypeVar("R", AlterConfigsResource, IncrementalResource)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,99}")
_LARGEST_ID: Final = 2**31 - 1
_GROUP: Final = 32
NOT_SERVED: Final = {8: "BROKER_LOGGER", 16: "CLIENT_METRICS", _GROUP: "GROUP"}


def resource_of(
    services: BrokerServices, context: RequestContext, operation: Operation, kind: int, name: str
) -> ConfigResource:
    """Return the type of the resource. Raises Refused if the type is unknown or the client is not
    authorized."""
    if kind == ConfigResource.TOPIC:
        context.require(operation, topic=name)
        return ConfigResource.TOPIC
    if kind == ConfigResource.BROKER:
        context.require(operation, CLUSTER)
        return ConfigResource.BROKER
    if kind not in NOT_SERVED:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    if kind == _GROUP:
        context.require(operation, group=name)
    else:
        context.require(operation, CLUSTER)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {NOT_SERVED[kind]}")


async def alter_each(
    services: BrokerServices,
    context: RequestContext,
    resources: Sequence[R],
    missing_values: Callable[[R], list[str]],
    alter: Callable[[R], Awaitable[None]],
) -> list[tuple[ErrorCode, str | None, int, str]]:
    """Return the outcome for each resource: code, message, type and name. A refused resource does
    not stop the others. `missing_values` returns the settings without a value that need a value."""
    times = Counter(_identity(resource) for resource in resources)
    outcomes: list[tuple[ErrorCode, str | None, int, str]] = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        code, message = ErrorCode.NONE, None
        try:
            if times[_identity(resource)] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            keys = [config.name for config in resource.configs]
            if len(set(keys)) < len(keys):
                raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            refuse_missing(missing_values(resource))
            _check_alterable(services, context, kind, name)
            await alter(resource)
        except Refused as refused:
            code, message = refused.code, refused.message or None
        outcomes.append((code, message, kind, name))
    return outcomes


def _identity(resource: AlterConfigsResource | IncrementalResource) -> tuple[int, str]:
    """Return the type and the name of the resource. `1` and `01` name the same broker."""
    kind, name = resource.resource_type, resource.resource_name
    is_id = kind == ConfigResource.BROKER and _INTEGER.fullmatch(name)
    return kind, str(int(name)) if is_id else name


def _check_alterable(
    services: BrokerServices, context: RequestContext, kind: int, name: str
) -> None:
    """Raise Refused if the client may not alter the settings of the resource on this broker."""
    found = resource_of(services, context, Operation.ALTER_CONFIGS, kind, name)
    if found is ConfigResource.BROKER and name:
        _check_is_this_broker(services, name)


def _check_is_this_broker(services: BrokerServices, name: str) -> None:
    """Raise Refused unless the name is the id of this broker. Only the broker itself can check its
    settings."""
    if broker_id_of(name, "Node id") != services.broker_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.broker_id}, but received {name}",
        )


def broker_id_of(name: str, noun: str) -> int:
    """Return the id that the name of a resource stands for. `noun` names it in the message. Raises
    Refused with INVALID_REQUEST."""
    if not _INTEGER.fullmatch(name) or abs(int(name)) > _LARGEST_ID:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{noun} must be an integer, but it is: {name}")
    return int(name)


async def alter_settings(
    services: BrokerServices,
    kind: int,
    name: str,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> None:
    """Replace the settings of a topic or of a broker by the result of `change`. Raises Refused."""
    if kind == ConfigResource.BROKER:
        key = str(int(name)) if name else name
        await services.metadata.alter_broker_settings(key, change, validate_only=validate_only)
    else:
        await services.metadata.alter_topic_settings(name, change, validate_only=validate_only)
