"""A call of all brokers is sent to those that are alive."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import Admin
from oncelog_client.errors import RetriableError
from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from oncelog_protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from oncelog_protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.client.scripted_broker import ADDRESS, ScriptedBroker, simulated

LIVE = (1, *ADDRESS)
DEAD = (2, "dead", 9092)


def listed_groups(*listed: tuple[int, str, int], apis: set[ApiKey]) -> list[str]:
    """Return the groups of a broker that serves only `apis`. Its Metadata list these brokers."""
    responses: dict[ApiKey, Any] = {
        ApiKey.API_VERSIONS: ApiVersionsResponse(
            api_keys=[ApiVersion(api, APIS[api].oldest, APIS[api].latest) for api in apis]
        ),
        ApiKey.METADATA: MetadataResponse(
            brokers=[MetadataResponseBroker(*broker) for broker in listed]
        ),
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterResponse(brokers=[DescribeClusterBroker(*LIVE)]),
        ApiKey.LIST_GROUPS: ListGroupsResponse(groups=[ListedGroup("g")]),
    }

    async def scenario() -> list[str]:
        async with Admin("broker:9092", default_api_timeout_ms=3_000) as admin:
            return [group.group_id for group in await admin.list_groups()]

    return simulated(ScriptedBroker(lambda api, _: responses.get(api)), scenario)


OLD = {ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_GROUPS}
NEW = OLD | {ApiKey.DESCRIBE_CLUSTER}


def test_a_dead_broker_that_metadata_still_lists_is_left_out() -> None:
    assert listed_groups(LIVE, DEAD, apis=NEW) == ["g"]


def test_a_live_broker_that_metadata_do_not_list_yet_is_waited_for() -> None:
    """Without its groups, the list would not be complete."""
    with pytest.raises(RetriableError, match="broker 1 is not in the metadata"):
        listed_groups(DEAD, apis=NEW)


def test_without_describe_cluster_the_metadata_decide() -> None:
    assert listed_groups(LIVE, apis=OLD) == ["g"]
    with pytest.raises(RetriableError, match="dead"):
        listed_groups(LIVE, DEAD, apis=OLD)
