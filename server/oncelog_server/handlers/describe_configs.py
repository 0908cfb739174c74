"""DescribeConfigs: settings of topics, of this broker and of all brokers, with the sources of their
values.

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
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import check_topic_name
from oncelog_server.default_messages import message_of
from oncelog_server.handlers.config_resources import ConfigResource, broker_id_of, resource_of
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.settings.description import (
    SettingDescription,
    describe_broker,
    describe_defaults,
    describe_topic,
)
from oncelog_server.settings.table import Kind
from oncelog_server.slices import Steps, when_large

API = ApiKey.DESCRIBE_CONFIGS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Steps[DescribeConfigsResponse]:
    return when_large(len(request.resources), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse]:
    # A resource that the request repeats is described once, because the description of a broker is
    # thousands of times larger than its place in the request. An empty list of keys is the same as
    # null, as in Kafka.
    described: set[tuple[int, str, frozenset[str]]] = set()
    describing = _Describing(services, context, request)
    results = []
    for resource in request.resources:
        keys = frozenset(resource.configuration_keys or ())
        key = resource.resource_type, resource.resource_name, keys
        if key not in described:
            described.add(key)
            results.append(describing.result(resource))
        yield
    return DescribeConfigsResponse(results=results)


Entries = list[DescribeConfigsResourceResult]


class _Describing:
    """The descriptions of one request. All topics with the same own settings share one list, which
    is encoded once. The broker's list is shared in the same way."""

    def __init__(
        self, services: BrokerServices, context: RequestContext, request: DescribeConfigsRequest
    ) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._topics: dict[frozenset[tuple[str, str]], Entries] = {}
        self._broker: Entries = []
        self._defaults: Entries = []
        # Lists with only the requested keys, by the `id()` of the full list and the keys.
        self._chosen: dict[tuple[int, frozenset[str]], Entries] = {}

    def result(self, wanted: DescribeConfigsResource) -> DescribeConfigsResult:
        kind, name = wanted.resource_type, wanted.resource_name
        try:
            entries = self._entries_of(kind, name)
        except Refused as refused:
            # Kafka has no message for an unknown topic.
            is_unknown = refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = "" if is_unknown else message_of(refused)
            return DescribeConfigsResult(refused.code, message, kind, name)
        if wanted.configuration_keys:
            entries = self._with_keys(entries, frozenset(wanted.configuration_keys))
        return DescribeConfigsResult(ErrorCode.NONE, "", kind, name, entries)

    def _with_keys(self, entries: Entries, keys: frozenset[str]) -> Entries:
        chosen = self._chosen.get((id(entries), keys))  # no id is reused: `self` keeps each list
        if chosen is None:
            chosen = [entry for entry in entries if entry.name in keys]
            self._chosen[id(entries), keys] = chosen
        return chosen

    def _entries_of(self, kind: int, name: str) -> Entries:
        """Return the entries for all settings of a resource. Raises Refused if there is no such
        resource or if the client may not describe it."""
        services = self._services
        resource = resource_of(services, self._context, Operation.DESCRIBE_CONFIGS, kind, name)
        if resource is ConfigResource.BROKER:
            if not name:
                # The dynamic settings of all brokers.
                self._defaults = self._defaults or self._made(describe_defaults(services.settings))
                return self._defaults
            if broker_id_of(name, "Broker id") != services.broker_id:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {services.broker_id} or empty string, "
                    f"but received {name}",
                )
            self._broker = self._broker or self._made(describe_broker(services.settings))
            return self._broker
        check_topic_name(name)
        topic = services.metadata.image.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        own = frozenset(topic.settings.items())
        if own not in self._topics:
            self._topics[own] = self._made(describe_topic(services.settings, topic.settings))
        return self._topics[own]

    def _made(self, descriptions: Iterable[SettingDescription]) -> Entries:
        return [_entry(self._request, description) for description in descriptions]


def _entry(
    request: DescribeConfigsRequest, description: SettingDescription
) -> DescribeConfigsResourceResult:
    synonyms = description.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=description.name,
        value=description.value,
        read_only=description.read_only,
        config_source=description.source,
        is_sensitive=description.kind is Kind.PASSWORD,
        synonyms=[DescribeConfigsSynonym(two.name, two.value, two.source) for two in synonyms],
        config_type=description.kind,
        documentation=description.documentation if request.include_documentation else None,
    )
