"""CoordinatorCall v0: a call between the coordinators on different brokers. Only oncelog has this
API. Only brokers send it, over the listener between brokers, and ApiVersions does not list it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResponse,
    CoordinatorCallResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, Order, Unheard
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.settings.listeners import inter_broker_listener

if TYPE_CHECKING:
    from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators

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
    return _serve(others, request.call)


def _serve(
    others: OtherCoordinators, call: CoordinatorCall
) -> CoordinatorCallResponse | Deferred[CoordinatorCallResponse]:
    """Serve the call. A defect fails only this call: without a response, the link would break, and
    the results of all other calls over it would be lost."""
    try:
        served = others.serve(call)
    except Exception as failure:
        Unheard.give([failure])
        return _failed()
    if not isinstance(served, Deferred):
        return CoordinatorCallResponse(result=served)
    response: Deferred[CoordinatorCallResponse] = Deferred(order=Order.FREE)

    def abandoned() -> None:
        if served.failure is not None:
            Unheard.give([served.failure])
        response.complete(_failed())

    served.on_complete(lambda result: response.complete(CoordinatorCallResponse(result=result)))
    served.on_abandon(abandoned)
    return response


def _failed() -> CoordinatorCallResponse:
    result = CoordinatorCallResult(ErrorCode.UNKNOWN_SERVER_ERROR)
    return CoordinatorCallResponse(result=result)
