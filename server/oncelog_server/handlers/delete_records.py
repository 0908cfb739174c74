"""DeleteRecords v0-2: advance the log start offset (KIP-107). v2 flexible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import INTERNAL_TOPICS
from oncelog_server.deferred import Deferred, Order, gather, pass_on, then, then_ask
from oncelog_server.partition.replicated_deletion import (
    NO_LOW_WATERMARK,
    Deletion,
    DeletionOutcome,
    ReplicatedDeletion,
)
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps
from oncelog_server.storage.files import StorageError

API = ApiKey.DELETE_RECORDS

TO_HIGH_WATERMARK: Final = -1


# By topic: the deletion in each partition, or the code of its refusal.
Deleted: TypeAlias = list[list[Deletion | ErrorCode]]


def handle(
    services: BrokerServices, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
    deleted = services.slices.run(_delete_all(services, context, request))
    return then_ask(deleted, lambda deleted: _wait(services, request, deleted))


def _delete_all(
    services: BrokerServices, context: RequestContext, request: DeleteRecordsRequest
) -> Steps[Deleted]:
    """Delete the records of all partitions on this broker."""
    deleted: Deleted = []
    for topic in request.topics:
        row: list[Deletion | ErrorCode] = []
        for wanted in topic.partitions:
            row.append((yield from _delete(services, context, topic.name, wanted)))
            yield
        deleted.append(row)
    return deleted


def _wait(
    services: BrokerServices, request: DeleteRecordsRequest, deleted: Deleted
) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
    """Respond once the deletions are on this broker's disk, and the followers have made them."""
    deletions = [found for row in deleted for found in row if isinstance(found, Deletion)]
    if not deletions:
        return _response(request, deleted, [])
    waits: list[Deferred[Any]] = [
        # The response waits until the new log start offsets are on this broker's disk. Kafka writes
        # them only once a minute: deleted records may come back after a crash of its broker.
        services.checkpoint(),
        ReplicatedDeletion(
            deletions,
            lambda broker_id: broker_id in services.metadata.image.brokers,
            request.timeout_ms,
            services.timers,
        ).answer,
    ]
    response: Deferred[DeleteRecordsResponse] = Deferred(order=Order.ORDERED)

    def respond(results: list[Any]) -> DeleteRecordsResponse:
        error, outcomes = results
        return _response(request, deleted, outcomes if error is None else _undurable(outcomes))

    pass_on(then(gather(waits), respond), response)
    return response


def _undurable(outcomes: Sequence[DeletionOutcome]) -> list[DeletionOutcome]:
    """Return KAFKA_STORAGE_ERROR for each deletion without an error. The new log start offsets
    could not be written, so the records may come back after a crash."""
    failed = DeletionOutcome(NO_LOW_WATERMARK, ErrorCode.KAFKA_STORAGE_ERROR)
    return [failed if outcome.code is ErrorCode.NONE else outcome for outcome in outcomes]


def _response(
    request: DeleteRecordsRequest,
    deleted: Deleted,
    outcomes: Sequence[DeletionOutcome],
) -> DeleteRecordsResponse:
    """Return the response. `outcomes` are those of the deletions, in their order."""
    left = iter(outcomes)
    topics = []
    for topic, row in zip(request.topics, deleted, strict=True):
        results = []
        for wanted, found in zip(topic.partitions, row, strict=True):
            refused = found if isinstance(found, ErrorCode) else None
            low, code = next(left) if refused is None else (NO_LOW_WATERMARK, refused)
            results.append(DeleteRecordsPartitionResult(wanted.partition_index, low, code))
        topics.append(DeleteRecordsTopicResult(topic.name, results))
    return DeleteRecordsResponse(topics=topics)


def _delete(
    services: BrokerServices, context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> Steps[Deletion | ErrorCode]:
    """Delete the records on this broker. Return the code of a refusal instead."""
    try:
        context.require(Operation.DELETE, topic=topic)
        partition = services.partitions.require(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.check_leader()
        if not partition.config.deletes_by_retention:
            raise Refused(ErrorCode.POLICY_VIOLATION)
        is_all = wanted.offset == TO_HIGH_WATERMARK
        offset = partition.high_watermark if is_all else wanted.offset
        yield from partition.delete_records_before(offset, services.clock.now_ms())
    except Refused as refused:
        return refused.code
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return Deletion(partition, offset)
