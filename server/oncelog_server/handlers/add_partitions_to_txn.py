"""AddPartitionsToTxn v0-5: add partitions to a transaction, before its first write to them.

Producers send v0-3, for one transaction. v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH. v3
flexible. Brokers send v4, for several transactions, or to verify partitions without adding them
(KIP-890 part 1). v5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import INTERNAL_TOPICS
from oncelog_server.coordinator.routing import NEVER_IN_TRANSACTIONS
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.error_versions import code_for_version
from oncelog_server.transaction.results import TransactionResult

API = ApiKey.ADD_PARTITIONS_TO_TXN

BROKERS_SINCE: Final = 4
BUMPS_EPOCH_SINCE: Final = 5

# The codes of the partitions of one transaction: a single code for all, or a code for each.
Codes = ErrorCode | dict[TopicPartition, ErrorCode]


Answered = AddPartitionsToTxnResponse | Steps[AddPartitionsToTxnResponse]
Answer = Answered | Deferred[Answered]


def handle(
    services: BrokerServices, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Answer | Steps[Answer]:
    if context.api_version < BROKERS_SINCE:
        size = _size(request.v3_and_below_topics)
        return when_large(size, _of_client(services, context, request))
    if not context.may(Operation.CLUSTER_ACTION, CLUSTER):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    size = sum(1 + _size(transaction.topics) for transaction in request.transactions)
    return when_large(size, _of_broker(services, context, request.transactions))


def _size(topics: Sequence[AddPartitionsToTxnTopic]) -> int:
    return sum(1 + len(topic.partitions) for topic in topics)


def _of_client(
    services: BrokerServices, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Steps[Answer]:
    topics = request.v3_and_below_topics
    transactional_id = request.v3_and_below_transactional_id
    codes: Codes | Deferred[Codes]
    if not context.may(Operation.WRITE, transactional_id=transactional_id):
        codes = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        codes = yield from _add(
            services,
            context,
            AddPartitions(
                transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                (yield from _partitions(topics)),
                group_id=request.transaction_group_id,
                caller=context,
            ),
        )

    def response(codes: Codes) -> Steps[AddPartitionsToTxnResponse]:
        results = yield from _topic_results(topics, codes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    return then(codes, lambda codes: when_large(_size(topics), response(codes)))


def _of_broker(
    services: BrokerServices,
    context: RequestContext,
    transactions: Sequence[AddPartitionsToTxnTransaction],
) -> Steps[Answer]:
    transaction_version = 2 if context.api_version >= BUMPS_EPOCH_SINCE else 0
    answers = []
    for transaction in transactions:
        command = AddPartitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            (yield from _partitions(transaction.topics)),
            transaction_version,
            transaction.verify_only,
            transaction.transaction_group_id,
        )
        answers.append((yield from _add(services, context, command)))
        yield

    def response(codes: Sequence[Codes]) -> Steps[AddPartitionsToTxnResponse]:
        results = []
        for transaction, of_transaction in zip(transactions, codes, strict=True):
            found = yield from _topic_results(transaction.topics, of_transaction)
            results.append(AddPartitionsToTxnResult(transaction.transactional_id, found))
            yield
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    size = sum(1 + _size(transaction.topics) for transaction in transactions)
    return then(gather(answers), lambda codes: when_large(size, response(codes)))


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> Steps[frozenset[TopicPartition]]:
    found = []
    for topic in topics:
        for index in topic.partitions:
            found.append(TopicPartition(topic.name, index))
            yield
    return frozenset(found)


def _add(
    services: BrokerServices, context: RequestContext, command: AddPartitions
) -> Steps[Codes | Deferred[Codes]]:
    partitions = command.partitions
    refused = yield from _refused(services, context, partitions)
    if refused:
        # All or none (KIP-98): if a partition is refused, none is added (scenario R18).
        return {
            partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
            for partition in partitions
        }
    try:
        # In later versions, another broker has checked the producer id of its client.
        if context.api_version < BROKERS_SINCE:
            services.producer_id_owners.require(context, command.producer_id)
        result = services.transactions.add_partitions(command)
    except Refused as error:
        result = TransactionResult(error.code)
    version = context.api_version
    return then(result, lambda done: code_for_version(API, version, done.code))


def _refused(
    services: BrokerServices, context: RequestContext, partitions: frozenset[TopicPartition]
) -> Steps[dict[TopicPartition, ErrorCode]]:
    """Return the codes of partitions that the client may not write to, or that are unknown. A
    request from another broker needs no right to write, because that broker has already authorized
    the client's Produce or offset commit."""
    refused = {}
    by_client = context.api_version < BROKERS_SINCE
    image = services.metadata.image
    for partition in partitions:
        topic, index = partition
        allowed = (
            topic not in INTERNAL_TOPICS and context.may(Operation.WRITE, topic=topic)
            if by_client
            else topic not in NEVER_IN_TRANSACTIONS
        )
        if not allowed:
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic, index) is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield
    return refused


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], codes: Codes
) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    results = []
    for topic in topics:
        rows = [
            AddPartitionsToTxnPartitionResult(
                index,
                codes[TopicPartition(topic.name, index)] if isinstance(codes, dict) else codes,
            )
            for index in topic.partitions
        ]
        results.append(AddPartitionsToTxnTopicResult(topic.name, rows))
        yield
    return results
