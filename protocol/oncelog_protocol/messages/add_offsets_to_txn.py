"""AddOffsetsToTxn (key 25), versions 0 to 4."""

from __future__ import annotations

from oncelog_protocol.schema import message
from oncelog_protocol.types import int16, int32, int64, string


@message(range(0, 5), flexible_since=3)
class AddOffsetsToTxnRequest:
    """The request of AddOffsetsToTxn, versions 0 to 4."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(range(0, 5), flexible_since=3)
class AddOffsetsToTxnResponse:
    """The response of AddOffsetsToTxn, versions 0 to 4."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
