"""AddPartitionsToTxn (key 24, versions 0 to 5).

Adds partitions to a transaction before the first write to them.

* v2: PRODUCER_FENCED (KIP-588)
* v3: flexible
* v4: several transactions, for brokers; verify_only (KIP-890)
* v5: the client knows TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@struct
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AddPartitionsToTxnTransaction:
    """The partitions to add to, or verify in, one transaction."""

    transactional_id: str = string(since=4)
    producer_id: int = int64(since=4)
    producer_epoch: int = int16(since=4)
    verify_only: bool = boolean(since=4)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, since=4)
    transaction_group_id: str | None = string(
        since=4, nullable=True, tag=OWN_TAGS["transaction_group_id"], default=None
    )


@api_message(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnRequest:
    """One transaction of a client up to version 3, several of a broker from version 4 on."""

    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, since=4
    )
    v3_and_below_transactional_id: str = string(until=3)
    v3_and_below_producer_id: int = int64(until=3)
    v3_and_below_producer_epoch: int = int16(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3)
    transaction_group_id: str | None = string(
        since=3, until=3, nullable=True, tag=OWN_TAGS["transaction_group_id"], default=None
    )


@struct
class AddPartitionsToTxnPartitionResult:
    """The outcome for one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult:
    """The outcome for one topic."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@struct
class AddPartitionsToTxnResult:
    """The outcome for one transaction."""

    transactional_id: str = string(since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, since=4
    )


@api_message(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnResponse:
    """The outcome for each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, since=4
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, until=3
    )
