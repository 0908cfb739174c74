"""EndTxn (key 26, versions 0 to 5): commits or aborts a transaction.

* v1: a throttled client gets the response before the delay
* v2: PRODUCER_FENCED (KIP-588)
* v3: flexible
* v4: the client knows TRANSACTION_ABORTABLE (KIP-890)
* v5: the response holds the epoch of the next transaction (KIP-890)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@struct
class EndTxnMember:
    """Oncelog's own: another transaction of the same consumer group, which the request ends too."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()


@api_message(ApiKey.END_TXN)
class EndTxnRequest:
    """The transaction, and its outcome (KIP-98)."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()
    transaction_group_id: str | None = string(
        since=3, nullable=True, tag=OWN_TAGS["transaction_group_id"], default=None
    )
    members: list[EndTxnMember] = array(EndTxnMember, since=3, tag=OWN_TAGS["members"])


@api_message(ApiKey.END_TXN)
class EndTxnResponse:
    """From version 5 on: the producer id and epoch of the next transaction. `refused_member` is
    oncelog's own: the transactional id that caused the error, if it is one of the request's
    `members`.
    """

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1)
    producer_epoch: int = int16(since=5, default=-1)
    refused_member: str | None = string(
        since=3, nullable=True, tag=OWN_TAGS["refused_member"], default=None
    )
