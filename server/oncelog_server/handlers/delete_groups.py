"""DeleteGroups v0-3 (KIP-229). v2 flexible. v3 error messages (KIP-1043)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.DELETE_GROUPS


def handle(
    services: BrokerServices, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Deferred[DeleteGroupsResponse] | Steps[Any]:
    group_ids = request.groups_names
    return when_large(len(group_ids), _steps(services, context, dict.fromkeys(group_ids)))


def _steps(
    services: BrokerServices, context: RequestContext, group_ids: Iterable[str]
) -> Steps[DeleteGroupsResponse | Deferred[DeleteGroupsResponse]]:
    answers = []
    for group_id in group_ids:
        answers.append(_delete(services, context, group_id))
        yield
    return then(
        gather(answers),
        lambda lists: DeleteGroupsResponse(
            results=[result for results in lists for result in results]
        ),
    )


def _delete(
    services: BrokerServices, context: RequestContext, group_id: str
) -> list[DeletableGroupResult] | Deferred[list[DeletableGroupResult]]:
    try:
        context.require(Operation.DELETE, group=group_id)
        return services.groups.run(group_id, lambda shard: shard.delete_groups([group_id]))
    except Refused as refused:
        return [DeletableGroupResult(group_id, refused.code)]
