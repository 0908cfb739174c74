"""UpdateFeatures changes the levels that ApiVersions shows."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oncelog_server.broker_services import BrokerServices
from oncelog_server.handlers import update_features
from tests.server.handlers.nodes import ask, broker

FEATURE = "transaction.version"
UP, SAFE = 1, 2


async def update(
    services: BrokerServices, version: int, level: int, *, validate_only: bool = False, **how: Any
) -> Any:
    key = FeatureUpdateKey(FEATURE, level, **how)
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)
    return await ask(update_features, services, request, version)


@pytest.mark.parametrize("version", APIS[update_features.API].versions)
async def test_a_level_is_changed_in_every_version(version: int) -> None:
    down = {"allow_downgrade": True} if version == 0 else {"upgrade_type": SAFE}
    async with broker() as services:
        refused = await update(services, version, 1)
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "Can't downgrade" in refused.error_message
        assert refused.results == []
        assert services.metadata.image.features == {FEATURE: 2}
        if version:
            await update(services, version, 1, validate_only=True, **down)
            assert services.metadata.image.features == {FEATURE: 2}
        done = await update(services, version, 1, **down)
        assert (done.error_code, done.error_message) == (ErrorCode.NONE, None)
        assert services.metadata.image.features == {FEATURE: 1}
        rows = [(row.feature, row.error_code, row.error_message) for row in done.results]
        assert rows == ([(FEATURE, 0, "NONE")] if version < 2 else [])
