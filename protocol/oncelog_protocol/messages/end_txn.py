"""EndTxn (key 26), versions 0 to 5."""

from __future__ import annotations

from oncelog_protocol.schema import message
from oncelog_protocol.types import boolean, int16, int32, int64, string


@message(range(0, 6), flexible_since=3)
class EndTxnRequest:
    """The request of EndTxn, versions 0 to 5."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(range(0, 6), flexible_since=3)
class EndTxnResponse:
    """The response of EndTxn, versions 0 to 5."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1)
    producer_epoch: int = int16(since=5, default=-1)
