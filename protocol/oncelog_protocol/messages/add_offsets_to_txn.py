"""AddOffsetsToTxn (key 25, versions 0 to 4): adds the offsets of a group to a transaction.

* v1: a throttled client gets the response before the delay
* v2: PRODUCER_FENCED (KIP-588)
* v3: flexible
* v4: the client knows TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.types import int16, int32, int64, string


@api_message(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnRequest:
    """The group to which the transaction commits offsets (KIP-98)."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()
    transaction_group_id: str | None = string(
        since=3, nullable=True, tag=OWN_TAGS["transaction_group_id"], default=None
    )


@api_message(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnResponse:
    """The outcome: NONE if the partition of the group's offsets is now in the transaction."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
