"""CoordinatorCall v0: calls between the coordinators on different brokers. Only oncelog has this
API. Only brokers send it, over the listener between brokers, and ApiVersions does not list it.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCallRequest,
    CoordinatorCallResponse,
    CoordinatorCallResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.settings.listeners import inter_broker_listener

API = ApiKey.COORDINATOR_CALL


def handle(
    services: BrokerServices, context: RequestContext, request: CoordinatorCallRequest
) -> CoordinatorCallResponse | Deferred[CoordinatorCallResponse]:
    is_between_brokers = context.listener_name == inter_broker_listener(services.settings)
    if not (context.may(Operation.CLUSTER_ACTION, CLUSTER) and is_between_brokers):
        return CoordinatorCallResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    others = services.other_coordinators
    if others is None:
        # A single broker calls no other one.
        return CoordinatorCallResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    results = gather([others.serve(call) for call in request.calls])
    return then(results, _response)


def _response(results: list[CoordinatorCallResult]) -> CoordinatorCallResponse:
    return CoordinatorCallResponse(results=results)
