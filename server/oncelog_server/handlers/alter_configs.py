"""AlterConfigs: all of a topic's own settings anew; what is not named goes back to its default.

v0, v1: settings of topics; or only a check
v2: flexible
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from oncelog_server.cluster.topic_alterations import replaced_settings
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.config_resources import check_alterable
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.refusal import Refused

API = ApiKey.ALTER_CONFIGS
VERSIONS = range(0, 3)


def handle(
    node: Node, context: RequestContext, request: AlterConfigsRequest
) -> Deferred[AlterConfigsResponse]:
    return node.spawn(_alter(node, context, request))


async def _alter(
    node: Node, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    responses = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        code, message = ErrorCode.NONE, None
        try:
            keys = [config.name for config in resource.configs]
            check_alterable(node, context, kind, name, keys, times[kind, name])
            await _replace(node, resource, validate_only=request.validate_only)
        except Refused as refused:
            code, message = refused.code, refused.message or None
        responses.append(AlterConfigsResourceResponse(code, message, kind, name))
    return AlterConfigsResponse(responses=responses)


async def _replace(node: Node, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    """Raises Refused."""
    own = replaced_settings({config.name: config.value for config in resource.configs})

    def change(before: Mapping[str, str]) -> Mapping[str, str]:
        return own

    await node.metadata.alter_topic_settings(
        resource.resource_name, change, validate_only=validate_only
    )
