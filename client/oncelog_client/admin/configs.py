"""Settings of topics, brokers and groups: describe and alter (KIP-133, KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_client.admin.brokers import find_broker
from oncelog_client.admin.config_descriptions import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ResourceType,
)
from oncelog_client.core.refusal_texts import refusal_text
from oncelog_client.errors import KafkaError, check
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OPERATIONS: Final = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
_OF_ONE_BROKER: Final = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER})


async def describe_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    names: list[str] | None,
    timeout_ms: int,
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    described: dict[ConfigResource, dict[str, ConfigEntry]] = {}
    deadline_ms = monotonic_ms() + timeout_ms
    for node_id, wanted in _by_node(resources).items():
        if node_id is not None:
            await find_broker(cluster, node_id, deadline_ms - monotonic_ms())
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=names,
                )
                for resource in wanted
            ],
            include_synonyms=True,
            include_documentation=names is None,
        )

        async def attempt(
            node_id: int | None = node_id, request: DescribeConfigsRequest = request
        ) -> DescribeConfigsResponse:
            if node_id is None:
                response = await cluster.call_any(request, DescribeConfigsResponse)
            else:
                response = await cluster.call(node_id, request, DescribeConfigsResponse)
            for row in response.results:
                _check(row.error_code, row.resource_name, row.error_message)
            return response

        for row in (await cluster.retry(attempt, deadline_ms - monotonic_ms())).results:
            resource = ConfigResource(ResourceType(row.resource_type), row.resource_name)
            described[resource] = {config.name: _entry(config) for config in row.configs}
    return described


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        _source(config.config_source),
        config.read_only,
        config.is_sensitive,
        tuple(
            ConfigSynonym(synonym.name, synonym.value, _source(synonym.source))
            for synonym in config.synonyms
        ),
        config.documentation,
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


async def alter_configs(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
    timeout_ms: int,
    *,
    validate_only: bool,
) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    for node_id, resources in _by_node(changes).items():
        if node_id is not None:
            await find_broker(cluster, node_id, deadline_ms - monotonic_ms())
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(
                            name=change.name,
                            config_operation=_OPERATIONS[change.op],
                            value=change.value,
                        )
                        for change in changes[resource]
                    ],
                )
                for resource in resources
            ],
            validate_only=validate_only,
        )

        async def attempt(
            node_id: int | None = node_id, request: IncrementalAlterConfigsRequest = request
        ) -> None:
            if node_id is None:
                response = await cluster.call_controller(request, IncrementalAlterConfigsResponse)
            else:
                response = await cluster.call(node_id, request, IncrementalAlterConfigsResponse)
            for row in response.responses:
                _check(row.error_code, row.resource_name, row.error_message)

        await cluster.retry(attempt, deadline_ms - monotonic_ms())


def _check(code: int, resource: str, message: str | None) -> None:
    """Raise the error of a resource. The error for a topic that does not exist is no
    RetriableError, because Kafka's Admin does not retry it either."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaError(f"there is no topic {resource}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    check(code, refusal_text(code, resource, message))


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Return the resources by the broker that must get the request. Requests for a broker's own
    settings go to this broker. None stands for other settings: any broker describes them, and the
    controller changes them."""
    nodes: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in _OF_ONE_BROKER and resource.name
        nodes.setdefault(int(resource.name) if own else None, []).append(resource)
    return nodes
