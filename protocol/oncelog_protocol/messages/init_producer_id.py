"""InitProducerId (key 22), versions 0 to 6."""

from __future__ import annotations

from oncelog_protocol.schema import message
from oncelog_protocol.types import boolean, int16, int32, int64, string


@message(range(0, 7), flexible_since=2)
class InitProducerIdRequest:
    """The request of InitProducerId, versions 0 to 6."""

    transactional_id: str | None = string(nullable_since=0)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)
    enable2_pc: bool = boolean(since=6)
    keep_prepared_txn: bool = boolean(since=6)


@message(range(0, 7), flexible_since=2)
class InitProducerIdResponse:
    """The response of InitProducerId, versions 0 to 6."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(since=6, default=-1)
    ongoing_txn_producer_epoch: int = int16(since=6, default=-1)
