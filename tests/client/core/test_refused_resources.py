"""The names of refused resources in the messages of coordinators' refusals."""

from __future__ import annotations

import pytest

from oncelog_client.core.refused_resources import refused_resources
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED

INIT = InitProducerIdRequest("t", 1, consumer_group_id="g")
ADD = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t")
ADD_OFFSETS = AddOffsetsToTxnRequest("t", 1, 1, "g")
COMMIT = TxnOffsetCommitRequest("t", "g", 1, 1)
ADDED = AddPartitionsToTxnResponse(
    results_by_topic_v3_and_below=[
        AddPartitionsToTxnTopicResult("b", [AddPartitionsToTxnPartitionResult(0, TOPIC)]),
        AddPartitionsToTxnTopicResult("a", [AddPartitionsToTxnPartitionResult(0, TOPIC)]),
        AddPartitionsToTxnTopicResult("c", [AddPartitionsToTxnPartitionResult(0, NOT_ATTEMPTED)]),
    ]
)
MISSING = AddPartitionsToTxnResponse(
    results_by_topic_v3_and_below=[
        AddPartitionsToTxnTopicResult(
            "a",
            [
                AddPartitionsToTxnPartitionResult(7, UNKNOWN),
                AddPartitionsToTxnPartitionResult(3, UNKNOWN),
                AddPartitionsToTxnPartitionResult(0, NOT_ATTEMPTED),
            ],
        ),
    ]
)
WITHOUT = TxnOffsetCommitResponse(
    topics=[
        TxnOffsetCommitResponseTopic(
            "a",
            partitions=[TxnOffsetCommitResponsePartition(0, ErrorCode.OFFSET_METADATA_TOO_LARGE)],
        ),
        TxnOffsetCommitResponseTopic(
            "b", partitions=[TxnOffsetCommitResponsePartition(5, UNKNOWN)]
        ),
    ]
)
COMMITTED = TxnOffsetCommitResponse(
    topics=[
        TxnOffsetCommitResponseTopic("a", partitions=[TxnOffsetCommitResponsePartition(0, TOPIC)]),
        TxnOffsetCommitResponseTopic("c", partitions=[TxnOffsetCommitResponsePartition(0, 0)]),
    ]
)


@pytest.mark.parametrize(
    ("request_", "answer", "code", "names"),
    [
        (INIT, None, ID, "transactional id t"),
        (ADD, None, ID, "transactional id t"),
        (ADD_OFFSETS, None, ID, "transactional id t"),
        (EndTxnRequest("t", 1, 1, True), None, ID, "transactional id t"),
        (COMMIT, None, ID, "transactional id t"),
        (INIT, None, GROUP, "group g"),
        (ADD_OFFSETS, None, GROUP, "group g"),
        (COMMIT, None, GROUP, "group g"),
        (InitProducerIdRequest("t", 1), None, GROUP, ""),
        (ADD, ADDED, TOPIC, "topic a, b"),
        (COMMIT, COMMITTED, TOPIC, "topic a"),
        (INIT, None, TOPIC, ""),
        (ADD, MISSING, UNKNOWN, "partition a-3, a-7"),
        (COMMIT, WITHOUT, UNKNOWN, "partition b-5"),
        (COMMIT, WITHOUT, ErrorCode.OFFSET_METADATA_TOO_LARGE, "partition a-0"),
        (INIT, None, ErrorCode.PRODUCER_FENCED, ""),
        (object(), None, ID, ""),
    ],
)
def test_the_resources_of_a_refusal_are_named(
    request_: object, answer: object, code: ErrorCode, names: str
) -> None:
    assert refused_resources(request_, answer, code) == names
