"""Producers and transactions: describe, list, and end hanging transactions (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_client.admin.brokers import find_broker
from oncelog_client.admin.live_brokers import live_brokers
from oncelog_client.admin.row_retries import change_each
from oncelog_client.admin.transaction_descriptions import (
    AbortTransactionSpec,
    Fence,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from oncelog_client.core.arguments import texts, topic_partitions
from oncelog_client.core.request_versions import ANY_VERSION, versions_with
from oncelog_client.errors import KafkaError, RetriableError, check, error_for
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster, CoordinatorType
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import describe_producers as producers
from oncelog_protocol.messages import describe_transactions as transactions
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
_SPELLING: Final = {state.lower(): state for state in STATES}

# Maximum number of partitions in one request, as in Kafka's tool.
BATCH_SIZE: Final = 500
# Transaction timeouts in the InitProducerId request that fences the producer of an id. The id's
# next producer sets its own timeout. The second timeout is for a broker with a
# transaction.max.timeout.ms below the first.
TIMEOUTS_MS: Final = (60_000, 100)
# The versions of ListTransactions with the filters of KIP-994 and KIP-1152. A broker with an older
# version would ignore the filter and list everything.
_WITH_DURATION = versions_with(ListTransactionsRequest, "duration_filter")
_WITH_PATTERN = versions_with(ListTransactionsRequest, "transactional_id_pattern")


async def describe_producers(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    broker_id: int | None,
    timeout_ms: int,
) -> dict[TopicPartition, tuple[ProducerState, ...]]:
    deadline_ms = monotonic_ms() + timeout_ms
    if broker_id is not None:
        await find_broker(cluster, broker_id, timeout_ms)
    wanted = topic_partitions("partitions", partitions)
    missing = dict.fromkeys(wanted)
    found: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    cluster.watch({partition.topic for partition in wanted})

    async def attempt() -> None:
        await cluster.refresh()
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in missing:
            node_id = _leader(cluster, partition) if broker_id is None else broker_id
            by_node.setdefault(node_id, []).append(partition)
        responses = await asyncio.gather(
            *(
                cluster.call(node_id, _of(rows[at : at + BATCH_SIZE]), _PRODUCERS)
                for node_id, rows in by_node.items()
                for at in range(0, len(rows), BATCH_SIZE)
            )
        )
        failure: RetriableError | None = None
        for partition, row in _rows(responses):
            error = row.error_code and error_for(
                row.error_code, row.error_message or str(partition)
            )
            if isinstance(error, RetriableError):
                failure = error
            elif error:
                raise error
            else:
                found[partition] = tuple(map(_producer, row.active_producers))
                missing.pop(partition, None)
        if failure is not None:
            raise failure

    await cluster.retry(attempt, deadline_ms - monotonic_ms())
    return {partition: found[partition] for partition in wanted}


_PRODUCERS: Final = producers.DescribeProducersResponse


def _leader(cluster: Cluster, partition: TopicPartition) -> int:
    """Return the leader of a partition. Raises RetriableError if the leader is unknown."""
    leader = cluster.metadata.leader(partition)
    if leader is None:
        raise cluster.metadata.no_leader(partition)
    return leader


def _of(partitions: Iterable[TopicPartition]) -> producers.DescribeProducersRequest:
    topics: dict[str, producers.TopicRequest] = {}
    for topic, partition in partitions:
        row = topics.setdefault(topic, producers.TopicRequest(topic))
        row.partition_indexes.append(partition)
    return producers.DescribeProducersRequest(list(topics.values()))


def _rows(
    responses: Iterable[producers.DescribeProducersResponse],
) -> list[tuple[TopicPartition, producers.PartitionResponse]]:
    return [
        (TopicPartition(topic.name, row.partition_index), row)
        for response in responses
        for topic in response.topics
        for row in topic.partitions
    ]


def _producer(row: producers.ProducerState) -> ProducerState:
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        _known(row.coordinator_epoch),
        _known(row.current_txn_start_offset),
        _known(row.held_records),
        _known(row.held_bytes),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number


# The producer of a transaction that the client may not see would look hanging.
_LEFT_OUT: Final = (
    "some transactions belong to transactional ids that this principal may not describe, and would "
    "look like hanging transactions; allow DESCRIBE on all transactional ids"
)


async def list_transactions(
    cluster: Cluster, request: ListTransactionsRequest, group_id: str | None, timeout_ms: int
) -> list[TransactionListing]:
    versions = ANY_VERSION
    # The caller may write a state in upper or lower case. Brokers know only the spelling of STATES.
    request.state_filters = [_SPELLING.get(s.lower(), s) for s in request.state_filters]
    if request.transactional_id_pattern:
        versions = _WITH_PATTERN
    elif request.duration_filter >= 0:
        versions = _WITH_DURATION

    kind = CoordinatorType.TRANSACTION_GROUP

    async def asked() -> list[int]:
        if group_id is not None:
            return [await cluster.coordinator(kind, group_id)]
        return await live_brokers(cluster)

    async def ask(node_id: int) -> ListTransactionsResponse:
        try:
            return await cluster.call(node_id, request, ListTransactionsResponse, versions=versions)
        except RetriableError:
            if group_id is not None:
                cluster.forget_coordinator(kind, group_id)
            raise

    async def attempt() -> list[TransactionListing]:
        nodes = await asked()
        responses = await asyncio.gather(*map(ask, nodes))
        found = [
            listing
            for node_id, response in zip(nodes, responses, strict=True)
            for listing in _listings(node_id, request, response)
        ]
        return sorted(found, key=lambda listing: listing.transactional_id)

    return await cluster.retry(attempt, timeout_ms)


def _listings(
    node_id: int, request: ListTransactionsRequest, response: ListTransactionsResponse
) -> list[TransactionListing]:
    """Return the transactional ids that a broker lists. Raises the error of the response."""
    is_unavailable = response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    detail = _unavailable(node_id) if is_unavailable else request.transactional_id_pattern
    check(response.error_code, detail)
    if response.leaves_out and request.producer_id_filters:
        raise KafkaError(_LEFT_OUT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if response.unknown_state_filters:
        unknown = ", ".join(response.unknown_state_filters)
        raise KafkaError(
            f"there is no transaction state {unknown}; states are {', '.join(STATES)}",
            ErrorCode.INVALID_REQUEST,
        )
    return [
        TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, node_id)
        for row in response.transaction_states
    ]


def _unavailable(node_id: int) -> str:
    return (
        f"broker {node_id} cannot list all transactions that it coordinates: it is shutting down,"
        " or it cannot read a partition of __transaction_state (its log names the partition)"
    )


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], timeout_ms: int
) -> dict[str, TransactionDescription]:
    async def describe(transactional_id: str) -> TransactionDescription:
        async def attempt() -> TransactionDescription:
            response = await cluster.call_coordinator(
                CoordinatorType.TRANSACTION,
                transactional_id,
                transactions.DescribeTransactionsRequest([transactional_id]),
                transactions.DescribeTransactionsResponse,
            )
            states = response.transaction_states
            row = next(row for row in states if row.transactional_id == transactional_id)
            check(row.error_code, transactional_id)
            node_id = await cluster.coordinator(CoordinatorType.TRANSACTION, transactional_id)
            return _description(row, node_id)

        return await cluster.ask_coordinator(
            CoordinatorType.TRANSACTION, transactional_id, attempt, timeout_ms
        )

    names = texts("transactional_ids", transactional_ids)
    return dict(zip(names, await asyncio.gather(*map(describe, names)), strict=True))


def _description(row: transactions.TransactionState, node_id: int) -> TransactionDescription:
    return TransactionDescription(
        row.transactional_id,
        node_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        _known(row.transaction_start_time_ms),
        frozenset(
            TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions
        ),
        row.client_id or None,
        row.client_address or None,
        _known(row.time_left_ms),
        tuple(
            Fence(
                fence.producer_id,
                fence.producer_epoch,
                fence.cause,
                fence.fenced_at_ms,
                fence.client_id,
                fence.client_address,
                fence.refusals,
                fence.principal,
            )
            for fence in row.fences
        ),
        row.principal or None,
    )


async def abort_transaction(cluster: Cluster, spec: AbortTransactionSpec, timeout_ms: int) -> None:
    partition = spec.topic_partition
    marker = WritableTxnMarker(
        spec.producer_id,
        spec.producer_epoch,
        False,
        [WritableTxnMarkerTopic(partition.topic, [partition.partition])],
        # DescribeProducers returns a coordinator epoch of -1 if the producer has not ended a
        # transaction in the partition. A marker needs an epoch of 0 or more.
        max(spec.coordinator_epoch, 0),
    )
    cluster.watch([partition.topic])

    async def attempt() -> None:
        await cluster.refresh()
        leader = _leader(cluster, partition)
        request = WriteTxnMarkersRequest([marker])
        response = await cluster.call(leader, request, WriteTxnMarkersResponse)
        for result in response.markers:
            for topic in result.topics:
                for row in topic.partitions:
                    check(row.error_code, str(partition))

    await cluster.retry(attempt, timeout_ms)


async def fence_producers(
    cluster: Cluster, transactional_ids: Iterable[str], timeout_ms: int
) -> Mapping[str, tuple[int, int]]:
    async def fence(transactional_id: str) -> tuple[int, int]:
        async def attempt() -> tuple[int, int]:
            for timeout_ms in TIMEOUTS_MS:
                request = InitProducerIdRequest(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=timeout_ms,
                    by_operator=True,
                )
                response = await cluster.call_coordinator(
                    CoordinatorType.TRANSACTION, transactional_id, request, InitProducerIdResponse
                )
                if response.error_code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                    break
            # Until the open transaction is aborted, the broker responds with
            # CONCURRENT_TRANSACTIONS. That error is retried.
            check(response.error_code, transactional_id)
            return response.producer_id, response.producer_epoch

        return await cluster.ask_coordinator(
            CoordinatorType.TRANSACTION, transactional_id, attempt, timeout_ms
        )

    return await change_each(texts("transactional_ids", transactional_ids), fence)
