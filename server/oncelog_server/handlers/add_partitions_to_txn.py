"""AddPartitionsToTxn v0-5: which partitions a transaction is about to write to.

v0-3 by producers, for one transaction. v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH. v3
flexible. v4 by brokers, for several transactions, also only to verify (KIP-890 part 1). v5
TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from oncelog_server.coordination.error_versions import code_for_version
from oncelog_server.coordination.routing import INTERNAL_TOPICS
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import CLUSTER, Operation, Resource, ResourceType
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult

API = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS = range(0, 6)

BROKERS_SINCE: Final = 4
BUMPS_EPOCH_SINCE: Final = 5

Codes = dict[TopicPartition, ErrorCode]


def handle(
    node: Node, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Deferred[AddPartitionsToTxnResponse]:
    by_broker = context.api_version >= BROKERS_SINCE
    if by_broker:
        if not node.authorizer.authorise(context.principal, Operation.CLUSTER_ACTION, CLUSTER):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        transactions = request.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                request.v3_and_below_topics,
            )
        ]
    answers = [_add(node, context, one) for one in transactions]
    return then(gather(answers), lambda codes: _response(transactions, codes, by_broker))


def _add(
    node: Node, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Codes | Deferred[Codes]:
    """The code of every partition of one transaction."""
    partitions = frozenset(
        TopicPartition(topic.name, index)
        for topic in transaction.topics
        for index in topic.partitions
    )
    resource = Resource(ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)
    by_client = context.api_version < BROKERS_SINCE
    if by_client and not node.authorizer.authorise(context.principal, Operation.WRITE, resource):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = _refused(node, context, transaction.topics, partitions)
    if refused:
        # All or none (KIP-98): one that may not be added keeps the others out (R18).
        return {one: refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    command = AddPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        2 if context.api_version >= BUMPS_EPOCH_SINCE else 0,
        transaction.verify_only,
    )
    try:
        result = node.transactions.add_partitions(command)
    except Refused as error:
        result = TransactionResult(error.code)

    def codes(done: TransactionResult) -> Codes:
        return dict.fromkeys(partitions, code_for_version(API, context.api_version, done.code))

    return then(result, codes)


def _refused(
    node: Node,
    context: RequestContext,
    topics: list[AddPartitionsToTxnTopic],
    partitions: frozenset[TopicPartition],
) -> Codes:
    refused: Codes = {}
    by_client = context.api_version < BROKERS_SINCE
    denied = {
        topic.name
        for topic in topics
        if by_client
        and (
            topic.name in INTERNAL_TOPICS
            or not node.authorizer.authorise(
                context.principal, Operation.WRITE, Resource(ResourceType.TOPIC, topic.name)
            )
        )
    }
    for one in partitions:
        if one.topic in denied:
            refused[one] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif node.metadata.image.partition(one.topic, one.partition) is None:
            refused[one] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _response(
    transactions: list[AddPartitionsToTxnTransaction], codes: list[Codes], by_broker: bool
) -> AddPartitionsToTxnResponse:
    results = [
        _topic_results(transaction.topics, of_transaction)
        for transaction, of_transaction in zip(transactions, codes, strict=True)
    ]
    if not by_broker:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transaction.transactional_id, result)
            for transaction, result in zip(transactions, results, strict=True)
        ]
    )


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], codes: Codes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, codes[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
