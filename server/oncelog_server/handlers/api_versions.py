"""ApiVersions: the APIs and versions of this broker, from its handlers.

v0: the versions of each API
v1, v2: throttle time
v3: features (KIP-584), name of the client (KIP-511); flexible
v4: features with 0 as lowest version (older clients cannot read them, KAFKA-17492)
v5: the client names the cluster and node that it expects (KIP-1242)
"""

from __future__ import annotations

import re
from typing import Final

from oncelog_protocol.apis import APIS, BETWEEN_BROKERS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import GROUP_TRANSACTIONS, GROUP_TRANSACTIONS_LEVEL
from oncelog_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.metadata.founding import SUPPORTED_FEATURES
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.API_VERSIONS

NAMED_CLIENT_SINCE: Final = 3
FEATURES_FROM_ZERO_SINCE: Final = 4
ANY_NODE: Final = -1
# librdkafka checks for Produce v0 to distinguish a new broker from an old one. The broker
# disconnects a client that then sends Produce in a version below 3, as Kafka 4 does.
ADVERTISED_FROM: Final = {ApiKey.PRODUCE: 0}
# Features that Kafka does not have. They are shown if a setting enables them.
OWN_FEATURES: Final = {GROUP_TRANSACTIONS: GROUP_TRANSACTIONS_LEVEL}
_CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: BrokerServices, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return the versions. `request` is None if its version is unknown: the response, encoded in
    version 0, then has the versions of ApiVersions itself (KIP-511)."""
    if request is None:
        own = ApiVersion(API, APIS[API].oldest, APIS[API].latest)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
    if context.api_version >= NAMED_CLIENT_SINCE and not (
        _CLIENT_SOFTWARE.fullmatch(request.client_software_name)
        and _CLIENT_SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.api_version >= NAMED_CLIENT_SINCE:
        software = context.session.software
        software.name = request.client_software_name
        software.version = request.client_software_version
    if _is_misrouted(services, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    image = services.metadata.image
    extensions = OWN_FEATURES if services.has_group_transactions else {}
    lowest = 0 if context.api_version >= FEATURES_FROM_ZERO_SINCE else 1
    store = services.views.store()
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(key, ADVERTISED_FROM.get(ApiKey(key), versions.start), versions.stop - 1)
            for key, versions in sorted(services.versions.items())
            if key not in BETWEEN_BROKERS
        ],
        supported_features=[
            SupportedFeatureKey(name, versions[0], versions[1])
            for name, versions in SUPPORTED_FEATURES.items()
            if versions[0] >= lowest
        ]
        + [SupportedFeatureKey(name, level, level) for name, level in extensions.items()],
        finalized_features_epoch=image.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level)
            for name, level in {**image.features, **extensions}.items()
            if level > 0
        ],
        store_silence_ms=store.silence_ms,
        is_suspended=not store.is_registered,
    )


def _is_misrouted(services: BrokerServices, request: ApiVersionsRequest) -> bool:
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        return True
    return request.node_id not in (ANY_NODE, services.broker_id)
