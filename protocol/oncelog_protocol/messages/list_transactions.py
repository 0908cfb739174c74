"""ListTransactions (key 66, versions 0 to 2): the transactional ids this broker coordinates.

* v1: filter by duration (KIP-994)
* v2: filter by a pattern of the transactional id (KIP-1152)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@api_message(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsRequest:
    """The filters; an empty filter matches all."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable_since=2, default=None)


@struct
class TransactionState:
    """A transactional id in a list."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@api_message(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsResponse:
    """The transactional ids, and the names in the state filter that are not a state. `leaves_out`
    is oncelog's own: True if the response leaves out matching ids that the client may not describe.
    It is always False for a client that may not write markers."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
    leaves_out: bool = boolean(tag=OWN_TAGS["leaves_out"])
