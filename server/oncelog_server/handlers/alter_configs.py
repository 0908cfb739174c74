"""AlterConfigs: replace all settings of a topic, or all dynamic ones of a broker; a setting that is
not named returns to its default.

v0, v1: settings of topics and brokers; with `validate_only`, they are only checked
v2: flexible
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_alterations import replaced_settings
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.config_resources import alter_each, alter_settings
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.ALTER_CONFIGS


def handle(
    services: BrokerServices, context: RequestContext, request: AlterConfigsRequest
) -> Deferred[AlterConfigsResponse]:
    return services.spawn(_alter(services, context, request))


async def _alter(
    services: BrokerServices, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    outcomes = await alter_each(
        services,
        context,
        request.resources,
        lambda resource: [config.name for config in resource.configs if config.value is None],
        lambda resource: _replace(services, resource, validate_only=request.validate_only),
    )
    responses = [AlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    return AlterConfigsResponse(responses=responses)


async def _replace(
    services: BrokerServices, resource: AlterConfigsResource, *, validate_only: bool
) -> None:
    """Replace all own settings of the resource. Raises Refused."""
    own = replaced_settings({config.name: config.value for config in resource.configs})

    def change(before: Mapping[str, str]) -> Mapping[str, str]:
        return own

    kind, name = resource.resource_type, resource.resource_name
    await alter_settings(services, kind, name, change, validate_only=validate_only)
