"""WriteTxnMarkers v1-2: write the markers of decided transactions, for their coordinator (KIP-98).

v1 flexible. v2 the transaction's version, so that markers of KIP-890 transactions are checked more
strictly (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.links.client_ids import broker_of
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.markers import MarkerWork

if TYPE_CHECKING:
    from oncelog_server.transaction.operator_markers import JudgeMarker

API = ApiKey.WRITE_TXN_MARKERS


def handle(
    services: BrokerServices, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
    allowed = context.may(Operation.ALTER, CLUSTER, logged=False) or context.may(
        Operation.CLUSTER_ACTION, CLUSTER
    )
    if not allowed:
        return _respond(_refused(request.markers, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if _is_another_broker(services, context):
        return _write(services, context, request, None)
    return then_ask(
        _judge(services, request), lambda code_of: _write(services, context, request, code_of)
    )


def _judge(
    services: BrokerServices, request: WriteTxnMarkersRequest
) -> JudgeMarker | Deferred[JudgeMarker]:
    """Return the function that judges an operator's markers."""
    others = services.other_coordinators
    if others is None:
        return services.transactions.operator_markers.judge()
    return others.judge_markers({marker.producer_id for marker in request.markers})


def _write(
    services: BrokerServices,
    context: RequestContext,
    request: WriteTxnMarkersRequest,
    code_of: JudgeMarker | None,
) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
    """Write the markers. `code_of` judges those of an operator, and is None for a coordinator."""
    writing = _Writing(request.markers)
    for index, marker in enumerate(request.markers):
        partitions = _partitions(marker)
        work = MarkerWork(
            transactional_id="",
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            partitions=tuple(partitions),
        )
        settled = writing.settler(index)
        if code_of is not None:
            partitions = _refuse_live(work, code_of, settled)
            if not work.committed:
                settled.aborted = _Aborted(services, context, work)
        services.local_markers.send(work, partitions, settled)
    return _respond(writing)


def _refused(markers: list[WritableTxnMarker], code: ErrorCode) -> _Writing:
    writing = _Writing(markers)
    for index, marker in enumerate(markers):
        for partition in _partitions(marker):
            writing.settle(index, partition, code)
    return writing


def _respond(writing: _Writing) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
    return writing.response.value if writing.response.done else writing.response


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    """Return the partitions, each once."""
    named = (
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    )
    return list(dict.fromkeys(named))


def _is_another_broker(services: BrokerServices, context: RequestContext) -> bool:
    """Return True if the client id is that of another broker of this cluster. The request may then
    come from that broker's coordinator. A request with any other client id comes from an operator.
    This is also true for this broker's own client id, because a broker never sends this request to
    itself over a connection."""
    sender = broker_of(context.client_id)
    return sender != services.broker_id and sender in services.metadata.image.brokers


def _refuse_live(work: MarkerWork, code_of: JudgeMarker, settled: _Settler) -> list[TopicPartition]:
    """Refuse an operator's markers of a transaction that its coordinator will end: they would split
    the transaction. Return the other partitions. The tools also check this before they send
    markers, but a principal sees only the transactional ids that it may describe."""
    others = []
    for partition in work.partitions:
        code = code_of(work.producer_id, partition)
        if code is ErrorCode.NONE:
            others.append(partition)
        else:
            settled(partition, code)
    return others


class _Writing:
    """The response, complete when every marker has been committed or refused."""

    def __init__(self, markers: list[WritableTxnMarker]) -> None:
        self.response: Deferred[WriteTxnMarkersResponse] = Deferred()
        self._markers = markers
        self._codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        self._missing = sum(len(_partitions(marker)) for marker in markers)
        if not self._missing:
            self.response.complete(self._build())

    def settler(self, index: int) -> _Settler:
        return _Settler(self, index)

    def settle(self, index: int, partition: TopicPartition, code: ErrorCode) -> None:
        if (index, partition) not in self._codes:
            self._missing -= 1
        self._codes[index, partition] = code
        if not self._missing and not self.response.done:
            self.response.complete(self._build())

    def _build(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    marker.producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            topic.name,
                            [
                                WritableTxnMarkerPartitionResult(
                                    partition_index,
                                    self._codes[index, TopicPartition(topic.name, partition_index)],
                                )
                                for partition_index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for index, marker in enumerate(self._markers)
            ]
        )


class _Aborted:
    """Reports each transaction that an operator aborts without its coordinator."""

    def __init__(self, services: BrokerServices, context: RequestContext, work: MarkerWork) -> None:
        self._services = services
        self._context = context
        self._work = work
        self._opened = {partition for partition in work.partitions if self._is_open(partition)}

    def _is_open(self, name: TopicPartition) -> bool:
        partition = self._services.partitions.get(name)
        return partition is not None and any(
            producer.producer_id == self._work.producer_id
            for producer in partition.open_transactions()
        )

    def __call__(self, partition: TopicPartition) -> None:
        if partition in self._opened:
            self._services.transactions.operator_markers.aborted(
                self._work.producer_id, self._work.producer_epoch, self._context
            )


class _Settler:
    """Called with the outcome of each partition of one marker."""

    def __init__(self, writing: _Writing, index: int) -> None:
        self._writing = writing
        self._index = index
        self.aborted: _Aborted | None = None

    def __call__(self, partition: TopicPartition, code: ErrorCode) -> None:
        if self.aborted is not None and code is ErrorCode.NONE:
            self.aborted(partition)
        self._writing.settle(self._index, partition, code)
