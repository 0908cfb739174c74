"""DescribeConfigs: settings of topics and of this broker, with where their values come from.

v1, v2: sources and synonyms (KIP-226)
v3: types and documentation (KIP-569)
v4: flexible
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from oncelog_server.cluster.topic_names import check_topic_name
from oncelog_server.handlers.config_resources import ConfigResource, resource_of
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation
from oncelog_server.settings.description import SettingDescription, describe_broker, describe_topic

API = ApiKey.DESCRIBE_CONFIGS
VERSIONS = range(1, 5)


def handle(
    node: Node, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(node, context, request, wanted) for wanted in request.resources]
    )


def _describe(
    node: Node,
    context: RequestContext,
    request: DescribeConfigsRequest,
    wanted: DescribeConfigsResource,
) -> DescribeConfigsResult:
    kind, name = wanted.resource_type, wanted.resource_name
    try:
        descriptions = _descriptions(node, context, kind, name)
    except Refused as refused:
        return DescribeConfigsResult(refused.code, refused.message or None, kind, name)
    # No keys at all is null for Kafka, too.
    keys = wanted.configuration_keys
    return DescribeConfigsResult(
        ErrorCode.NONE,
        None,
        kind,
        name,
        [_entry(request, one) for one in descriptions if not keys or one.name in keys],
    )


def _descriptions(
    node: Node, context: RequestContext, kind: int, name: str
) -> Iterable[SettingDescription]:
    """Raises Refused."""
    resource = resource_of(node, context, Operation.DESCRIBE_CONFIGS, kind, name)
    if resource is ConfigResource.BROKER:
        # The empty name asks for the dynamic settings of all brokers: there are none.
        return describe_broker(node.settings) if name else ()
    check_topic_name(name)
    topic = node.metadata.image.topics.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic(node.settings, topic.settings)


def _entry(
    request: DescribeConfigsRequest, one: SettingDescription
) -> DescribeConfigsResourceResult:
    synonyms = one.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        config_source=one.source,
        synonyms=[DescribeConfigsSynonym(two.name, two.value, two.source) for two in synonyms],
        config_type=one.kind,
        documentation=one.documentation if request.include_documentation else None,
    )
