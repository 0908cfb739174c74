"""DescribeTransactions (key 65, version 0): transactional ids as their coordinator knows them.

Source: KIP-664. The tagged fields are oncelog's own.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, int64, string


@api_message(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsRequest:
    """The requested transactional ids; this broker must coordinate them."""

    transactional_ids: list[str] = array(string)


@struct
class TopicData:
    """Partitions of one topic in the transaction."""

    topic: str = string()
    partitions: list[int] = array(int32)


@struct
class FenceData:
    """A fence: producers with this id, and this epoch or an earlier one, are refused. A fence has
    its reason, its time, the client that caused it (empty: the coordinator itself), and the number
    of requests refused since."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    cause: str = string()
    fenced_at_ms: int = int64()
    client_id: str = string()
    client_address: str = string()
    refusals: int = int32()
    principal: str = string(tag=OWN_TAGS["principal"])


@struct
class TransactionState:
    """One transactional id. Oncelog's own fields: the client that opened the transaction, the time
    until its timeout (-1: no timeout, or no transaction), and the producers fenced lately, the
    oldest first."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)
    client_id: str = string(tag=OWN_TAGS["client_id"])
    client_address: str = string(tag=OWN_TAGS["client_address"])
    time_left_ms: int = int64(tag=OWN_TAGS["time_left_ms"], default=-1)
    fences: list[FenceData] = array(FenceData, tag=OWN_TAGS["fences"])
    principal: str = string(tag=OWN_TAGS["principal"])


@api_message(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsResponse:
    """The state of each requested transactional id."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
