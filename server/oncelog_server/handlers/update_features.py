"""UpdateFeatures: change the finalized levels of features, all or none (KIP-584).

v0: an upgrade, or any downgrade; an outcome for each feature
v1: the type of downgrade; with `validate_only`, the changes are only checked
v2: no outcome for each feature
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.feature_changes import FeatureUpdate, UpgradeType, update_features
from oncelog_server.deferred import Deferred
from oncelog_server.metadata.founding import SUPPORTED_FEATURES
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.UPDATE_FEATURES

UPGRADE_TYPE_SINCE: Final = 1
RESULTS_UNTIL: Final = 1
# The text that Kafka sends for each feature of a successful request.
NO_ERROR: Final = "NONE"


def handle(
    services: BrokerServices, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | Deferred[UpdateFeaturesResponse]:
    if not context.may(Operation.ALTER, CLUSTER):
        return UpdateFeaturesResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            error_message="Cluster authorization failed.",
        )
    return services.spawn(_update(services, context, request))


async def _update(
    services: BrokerServices, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    updates = [
        FeatureUpdate(
            update.feature,
            update.max_version_level,
            update.upgrade_type
            if context.api_version >= UPGRADE_TYPE_SINCE
            # In v0, a downgrade may lose data.
            else UpgradeType.UNSAFE_DOWNGRADE
            if update.allow_downgrade
            else UpgradeType.UPGRADE,
        )
        for update in request.feature_updates
    ]
    try:
        await services.metadata.write(
            lambda image: update_features(image, services.broker_id, SUPPORTED_FEATURES, updates),
            validate_only=request.validate_only,
        )
    except Refused as refused:
        return UpdateFeaturesResponse(error_code=refused.code, error_message=refused.message)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= RESULTS_UNTIL:
        response.results = [
            UpdatableFeatureResult(update.feature, ErrorCode.NONE, NO_ERROR) for update in updates
        ]
    return response
