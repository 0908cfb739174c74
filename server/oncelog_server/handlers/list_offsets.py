"""ListOffsets v1-11: the offset for a timestamp, or for the beginning or the end.

v2 isolation level: for a read_committed reader, the end is the last stable offset. v4 leader epochs
(KIP-320). v6 flexible. v7 timestamp -3: the record with the highest timestamp (KIP-734). v8
timestamp -4: the beginning on local disk (KIP-405). v9 timestamp -5: the end in tiered storage. v10
timeout. v11 timestamp -6: the first offset that is not in tiered storage yet.

With oncelog's own field `count_from`, the response also has a group's lag in a partition, in
records.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.results import TimestampOffset
from oncelog_server.log.timestamps import Search
from oncelog_server.partition.isolation import ISOLATIONS
from oncelog_server.partition.lag import count_lag
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import SMALL, ColdSteps, Steps, at_its_end
from oncelog_server.storage.files import StorageError

API = ApiKey.LIST_OFFSETS

# Maximum number of steps to count the lags that one request asks for. A step of `log/readable.py`
# takes about 0.5 ms.
MAX_COUNT_STEPS: Final = 4_000

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
# Earlier versions get LEADER_NOT_AVAILABLE instead of OFFSET_NOT_AVAILABLE (KIP-207).
OFFSET_NOT_AVAILABLE_SINCE: Final = 5
_OFFSET_NOT_AVAILABLE: Final = ErrorCode.OFFSET_NOT_AVAILABLE
# The first version that knows each special timestamp.
SPECIAL_SINCE: Final[dict[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

# The results by topic and partition. A topic or partition that the request repeats is there once.
Rows = dict[str, dict[int, ListOffsetsPartitionResponse]]


def handle(
    services: BrokerServices, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | ColdSteps[ListOffsetsResponse]:
    steps = _steps(services, context, request)
    # To count a lag or to find a time may take long even for few partitions.
    if any(
        wanted.count_from >= 0 or _needs_search(wanted.timestamp)
        for topic in request.topics
        for wanted in topic.partitions
    ):
        return steps
    is_large = sum(1 + len(topic.partitions) for topic in request.topics) > SMALL
    return steps if is_large else at_its_end(steps)


def _needs_search(timestamp: int) -> bool:
    """Return True if the response to this timestamp depends on the records' times."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _steps(
    services: BrokerServices, context: RequestContext, request: ListOffsetsRequest
) -> ColdSteps[ListOffsetsResponse]:
    isolation = ISOLATIONS.get(request.isolation_level)
    times = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    rows: Rows = {}
    for topic in request.topics:
        allowed = context.may(Operation.DESCRIBE, topic=topic.name)
        for wanted in topic.partitions:
            answers = rows.setdefault(topic.name, {})
            try:
                if not allowed:
                    raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if isolation is None or times[topic.name, wanted.partition_index] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST)
                _check_timestamp(context.api_version, wanted.timestamp)
                partition = services.partitions.require(topic.name, wanted.partition_index)
                partition.check_leader(wanted.current_leader_epoch)
                end, is_known = partition.end_offset(isolation), _is_end_known(partition)
                if _is_follower(context, partition, request.replica_id):
                    end, is_known = partition.log_end_offset, True
                if _needs_search(wanted.timestamp):
                    found = yield from _search(services, partition, wanted, end)
                    row = _found_row(wanted, found, end, is_known)
                else:
                    row = _row(partition, wanted, end, is_known)
            except Refused as refused:
                row = _nothing(wanted, _code(context.api_version, refused.code))
            except (StorageError, CorruptLog):
                row = _nothing(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
            answers[wanted.partition_index] = row
            yield None
        yield None
    if any(wanted.count_from >= 0 for topic in request.topics for wanted in topic.partitions):
        yield from _add_lags(services, request, rows)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name, [*found.values()]) for name, found in rows.items()]
    )


def _add_lags(services: BrokerServices, request: ListOffsetsRequest, rows: Rows) -> Steps[None]:
    """Add the requested lags to the rows, in oncelog's own fields (see the message's schema). All
    lags together take at most MAX_COUNT_STEPS. A row gets no lag if its count is not complete by
    then."""
    steps_left = MAX_COUNT_STEPS
    for topic in request.topics:
        for wanted in topic.partitions:
            row = rows[topic.name][wanted.partition_index]
            if row.error_code or wanted.count_from < 0:
                continue
            try:
                partition = services.partitions.require(topic.name, wanted.partition_index)
                counting = count_lag(partition, wanted.count_from)
                while steps_left:
                    next(counting)
                    steps_left -= 1
                    yield
            except StopIteration as counted:
                row.readable_records = counted.value.readable_records
                row.held_back_records = counted.value.held_back_records
            except Refused as refused:  # the partition was deleted while other lags were counted
                row.error_code = refused.code
            except (StorageError, CorruptLog):
                row.error_code = ErrorCode.KAFKA_STORAGE_ERROR


def _check_timestamp(version: int, timestamp: int) -> None:
    if timestamp < 0 and version < SPECIAL_SINCE.get(timestamp, 1 << 15):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)


def _nothing(
    wanted: ListOffsetsPartition, code: ErrorCode = ErrorCode.NONE
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(wanted.partition_index, code, -1, -1, -1)


def _is_follower(context: RequestContext, partition: Partition, replica_id: int) -> bool:
    """Return True if the client is a follower of the partition, so that it reads to the log end."""
    return partition.replicas.is_follower(replica_id) and context.may(
        Operation.CLUSTER_ACTION, CLUSTER, logged=False
    )


def _code(version: int, code: ErrorCode) -> ErrorCode:
    if code is _OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code


def _is_end_known(partition: Partition) -> bool:
    """Return False if a new leader does not know yet which of its records are committed (KIP-207).
    The offset of a client would otherwise move back. A record below the known end is committed,
    whatever follows it."""
    return partition.high_watermark >= partition.replicas.epoch_start_offset


def _row(
    partition: Partition, wanted: ListOffsetsPartition, end: int, is_known: bool
) -> ListOffsetsPartitionResponse:
    """Return the offset for a special timestamp that needs no search. `end` is the end of the
    readable records. Raises Refused if the offset depends on it, and it is not known."""
    index = wanted.partition_index
    if wanted.timestamp == LATEST:
        if not is_known:
            raise Refused(_OFFSET_NOT_AVAILABLE)
        return ListOffsetsPartitionResponse(index, 0, -1, end, partition.leader_epoch)
    if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        epoch = partition.epoch_at(start)
        return ListOffsetsPartitionResponse(index, 0, -1, start, epoch)
    assert wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
    return _nothing(wanted)  # There is no tiered storage.


def _search(
    services: BrokerServices, partition: Partition, wanted: ListOffsetsPartition, end: int
) -> Search:
    """Return the first record below `end` that has the wanted time, or for MAX_TIMESTAMP the record
    with the latest time. Raises Refused if the partition was deleted, or has moved, while it was
    searched."""
    try:
        while True:
            start = partition.log_start_offset
            if wanted.timestamp == MAX_TIMESTAMP:
                found = yield from partition.max_timestamp_offset()
            else:
                found = yield from partition.offset_for_timestamp(wanted.timestamp, end)
            # If retention has deleted the record meanwhile, the search begins again. As in Kafka,
            # the record with the latest time may be below the log start from the beginning.
            now = partition.log_start_offset
            if found is None or found.offset >= now or now == start:
                break
    except (StorageError, CorruptLog):
        # The bytes of a deleted partition cannot be read, which is no failure of the disk.
        _require_unchanged(services, partition, wanted)
        raise
    _require_unchanged(services, partition, wanted)
    return found


def _require_unchanged(
    services: BrokerServices, partition: Partition, wanted: ListOffsetsPartition
) -> None:
    if services.partitions.require(*partition.topic_partition) is not partition:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # created again with the same name
    partition.check_leader(wanted.current_leader_epoch)


def _found_row(
    wanted: ListOffsetsPartition, found: TimestampOffset | None, end: int, is_known: bool
) -> ListOffsetsPartitionResponse:
    """Return the row of a record that was found by its time, if it is below `end`. Raises Refused
    if it is not, and the end is not known."""
    if found is None or found.offset >= end:
        if not is_known:
            raise Refused(_OFFSET_NOT_AVAILABLE)
        return _nothing(wanted)
    return ListOffsetsPartitionResponse(
        wanted.partition_index, 0, found.timestamp, found.offset, found.leader_epoch
    )
