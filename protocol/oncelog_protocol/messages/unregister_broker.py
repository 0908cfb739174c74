"""UnregisterBroker (key 64, version 0): removes the registration of a broker that will not come
back (KIP-500)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.types import int16, int32, string


@api_message(ApiKey.UNREGISTER_BROKER)
class UnregisterBrokerRequest:
    """The id of the broker."""

    broker_id: int = int32()


@api_message(ApiKey.UNREGISTER_BROKER)
class UnregisterBrokerResponse:
    """The outcome."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
