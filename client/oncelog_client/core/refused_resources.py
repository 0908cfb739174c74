"""Names of the resources that a coordinator refuses, for lack of a right or as unknown partitions.
A response has only the code; the names are in the request, or beside the code in the response."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)


def refused_resources(request: object, response: object, code: int) -> str:
    """Return the type and the names of the resources that `response` refuses with `code`, such as
    `topic a, b`. Return an empty text for another code, and if the names are unknown."""
    match code:
        case ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return _named("transactional id", [_transactional_id(request)])
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return _named("group", [_group_id(request)])
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return _named("topic", (topic for topic, _ in _partitions(response, code)))
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.OFFSET_METADATA_TOO_LARGE:
            rows = _partitions(response, code)
            return _named("partition", (f"{topic}-{number}" for topic, number in rows))
    return ""


def _named(kind: str, names: Iterable[str | None]) -> str:
    known = sorted({name for name in names if name})
    return f"{kind} {', '.join(known)}" if known else ""


def _transactional_id(request: object) -> str | None:
    match request:
        case AddPartitionsToTxnRequest():
            return request.v3_and_below_transactional_id
        case (
            InitProducerIdRequest()
            | AddOffsetsToTxnRequest()
            | EndTxnRequest()
            | TxnOffsetCommitRequest()
        ):
            return request.transactional_id
    return None


def _group_id(request: object) -> str | None:
    match request:
        case InitProducerIdRequest():
            return request.consumer_group_id
        case AddOffsetsToTxnRequest() | TxnOffsetCommitRequest():
            return request.group_id
    return None


def _partitions(response: object, code: int) -> list[tuple[str, int]]:
    """Return the topics and numbers of the partitions that `response` refuses with `code`."""
    match response:
        case AddPartitionsToTxnResponse():
            return [
                (topic.name, row.partition_index)
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
                if row.partition_error_code == code
            ]
        case TxnOffsetCommitResponse():
            return [
                (topic.name, row.partition_index)
                for topic in response.topics
                for row in topic.partitions
                if row.error_code == code
            ]
    return []
