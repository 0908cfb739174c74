"""IncrementalAlterConfigs: change some settings of a topic or broker (KIP-339, KIP-226).

v0: set, delete, append and subtract; with `validate_only`, the changes are only checked
v1: flexible
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_alterations import Alteration, AlterOperation, altered_settings
from oncelog_server.deferred import Deferred
from oncelog_server.handlers.config_resources import (
    ConfigResource,
    alter_each,
    alter_settings,
)
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.INCREMENTAL_ALTER_CONFIGS


def handle(
    services: BrokerServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Deferred[IncrementalAlterConfigsResponse]:
    return services.spawn(_alter(services, context, request))


async def _alter(
    services: BrokerServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    outcomes = await alter_each(
        services,
        context,
        request.resources,
        _missing_values,
        lambda resource: _change(services, resource, validate_only=request.validate_only),
    )
    responses = [AlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    return IncrementalAlterConfigsResponse(responses=responses)


def _missing_values(resource: AlterConfigsResource) -> list[str]:
    return [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != AlterOperation.DELETE
    ]


async def _change(
    services: BrokerServices, resource: AlterConfigsResource, *, validate_only: bool
) -> None:
    """Change the settings of one topic or broker; with `validate_only`, only check the change.
    Raises Refused for a change that is not allowed."""
    alterations = [
        Alteration(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    kind, name = resource.resource_type, resource.resource_name

    def change(before: Mapping[str, str]) -> Mapping[str, str]:
        if kind == ConfigResource.BROKER:
            from oncelog_server.cluster.broker_alterations import altered_broker_settings

            return altered_broker_settings(before, alterations)
        return altered_settings(before, alterations)

    await alter_settings(services, kind, name, change, validate_only=validate_only)
