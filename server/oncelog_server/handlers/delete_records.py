"""DeleteRecords v0-2: advance the log start offset (KIP-107). v2 flexible."""

from __future__ import annotations

from typing import Final

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
from oncelog_server.deferred import Deferred, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.storage.files import StorageError

API = ApiKey.DELETE_RECORDS

TO_HIGH_WATERMARK: Final = -1


def handle(
    services: BrokerServices, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    _delete(services, context, topic.name, partition)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if all(partition.error_code for topic in response.topics for partition in topic.partitions):
        return response
    # The response waits until the new log start offsets are on disk. Kafka writes them only once a
    # minute: deleted records may come back after a crash of a Kafka broker.
    return then(
        services.checkpoint(), lambda error: response if error is None else _undurable(response)
    )


def _undurable(response: DeleteRecordsResponse) -> DeleteRecordsResponse:
    """Return the response with KAFKA_STORAGE_ERROR for each partition that had no error. The new
    log start offsets could not be written, so the records may come back after a crash."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code, partition.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
    return response


def _delete(
    services: BrokerServices, context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        context.require(Operation.DELETE, topic=topic)
        partition = services.partitions.require(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.check_leader()
        if not partition.config.deletes_by_retention:
            raise Refused(ErrorCode.POLICY_VIOLATION)
        start = partition.delete_records_before(
            partition.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset,
            services.clock.now_ms(),
        )
    except Refused as refused:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, refused.code)
    except StorageError:
        return DeleteRecordsPartitionResult(
            wanted.partition_index, -1, ErrorCode.KAFKA_STORAGE_ERROR
        )
    return DeleteRecordsPartitionResult(wanted.partition_index, start, ErrorCode.NONE)
