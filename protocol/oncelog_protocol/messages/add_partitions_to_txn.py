"""AddPartitionsToTxn (key 24), versions 0 to 5."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@struct
class AddPartitionsToTxnTopic:
    """Add partitions to txn topic of AddPartitionsToTxnRequest."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AddPartitionsToTxnTransaction:
    """Add partitions to txn transaction of AddPartitionsToTxnRequest."""

    transactional_id: str = string(since=4)
    producer_id: int = int64(since=4)
    producer_epoch: int = int16(since=4)
    verify_only: bool = boolean(since=4)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, since=4)


@message(range(0, 6), flexible_since=3)
class AddPartitionsToTxnRequest:
    """The request of AddPartitionsToTxn, versions 0 to 5."""

    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, since=4
    )
    v3_and_below_transactional_id: str = string(until=3)
    v3_and_below_producer_id: int = int64(until=3)
    v3_and_below_producer_epoch: int = int16(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3)


@struct
class AddPartitionsToTxnPartitionResult:
    """Add partitions to txn partition result of AddPartitionsToTxnResponse."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult:
    """Add partitions to txn topic result of AddPartitionsToTxnResponse."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@struct
class AddPartitionsToTxnResult:
    """Add partitions to txn result of AddPartitionsToTxnResponse."""

    transactional_id: str = string(since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, since=4
    )


@message(range(0, 6), flexible_since=3)
class AddPartitionsToTxnResponse:
    """The response of AddPartitionsToTxn, versions 0 to 5."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, since=4
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, until=3
    )
