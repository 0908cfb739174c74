"""SaslHandshake on a connection that does not authenticate by SASL, or cannot authenticate again:
the requests of authentication itself are served before the handlers.

v0, v1: the mechanism
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.SASL_HANDSHAKE


def handle(
    services: BrokerServices, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Refuse, as Kafka's KafkaApis."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
