"""UnregisterBroker: remove the registration of a broker that will not come back.

v0: the id of a fenced broker
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.UNREGISTER_BROKER


def handle(
    services: BrokerServices, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse | Deferred[UnregisterBrokerResponse]:
    if not context.may(Operation.ALTER, CLUSTER):
        return UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.spawn(_unregister(services, request.broker_id))


async def _unregister(services: BrokerServices, broker_id: int) -> UnregisterBrokerResponse:
    try:
        await services.metadata.unregister_broker(broker_id)
    except Refused as refused:
        return UnregisterBrokerResponse(
            error_code=refused.code, error_message=refused.message or None
        )
    return UnregisterBrokerResponse()
