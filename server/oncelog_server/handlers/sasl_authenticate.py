"""SaslAuthenticate on a connection that does not authenticate by SASL, or cannot authenticate
again: the requests of authentication itself are served before the handlers.

v0: a token
v1: lifetime of the session (KIP-368)
v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.SASL_AUTHENTICATE


def handle(
    services: BrokerServices, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse, as Kafka's KafkaApis."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
