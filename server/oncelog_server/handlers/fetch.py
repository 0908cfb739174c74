"""Fetch v4-18: records, and for read_committed readers the aborted transactions among them.

v4 isolation level, last stable offset, aborted transactions. v5 log start offset. v7 sessions
(KIP-227). v9 leader epoch of the reader (KIP-320). v11 rack. v12 flexible; diverging epoch. v13
topic ids (KIP-516). v15 replica state instead of replica id. v16 endpoints of new leaders. v17
directory id. v18 high watermark of followers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.codecs import sliced_encoder
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.fetch import FetchLimits, fetch
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import (
    FetchResult,
    PartitionResult,
    count_sent,
    count_throttled,
)
from oncelog_server.fetching.sessions import CONSUMER, FetchScope
from oncelog_server.fetching.unread import Unread
from oncelog_server.handlers.current_leaders import CurrentLeaders
from oncelog_server.partition.follower_fetch import NO_EPOCH, FetchingFollower
from oncelog_server.partition.isolation import ISOLATIONS
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.requests.request_meter import RequestMeter
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import SMALL, Steps, when_large

API = ApiKey.FETCH

TOPIC_IDS_SINCE: Final = 13
LEADERS_SINCE: Final = 16
# The errors after which a client looks for a new leader.
MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
# The errors of partitions that the broker does not try to read. As in Kafka, their list of aborted
# transactions is empty; with any other error it is null.
NOT_READ: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
NO_OFFSET: Final = -1


Answered = FetchResponse | Deferred[FetchResponse]


def handle(
    services: BrokerServices, context: RequestContext, request: FetchRequest
) -> Answered | Steps[Answered]:
    asked = 0
    for topic in request.topics:
        asked += len(topic.partitions)
    if asked > SMALL:
        return _asked_in_steps(services, context, request)
    by_id = context.api_version >= TOPIC_IDS_SINCE
    return _asked(services, context, request, _wanted(request.topics, by_id))


def _asked_in_steps(
    services: BrokerServices, context: RequestContext, request: FetchRequest
) -> Steps[Answered]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    wanted: list[FetchedPartition] = []
    for topic in request.topics:
        partitions = topic.partitions
        for first in range(0, len(partitions), SMALL):
            topic.partitions = partitions[first : first + SMALL]
            wanted += _wanted([topic], by_id)
            yield
    answer = _asked(services, context, request, wanted)
    if isinstance(answer, (FetchResponse, Deferred)):
        return answer
    return (yield from answer)


def _asked(
    services: BrokerServices,
    context: RequestContext,
    request: FetchRequest,
    wanted: list[FetchedPartition],
) -> Answered | Steps[Answered]:
    try:
        scope = _scope(services, context, request, wanted)
    except Refused as refused:
        return FetchResponse(error_code=refused.code)
    isolation = ISOLATIONS.get(request.isolation_level)
    if isolation is None:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    max_bytes = min(request.max_bytes, services.settings.fetch_max_bytes)
    meter = context.meter
    follower = _follower(services, request)
    if meter is not None and follower is not None:
        meter.exempt()
        meter = None
    if meter is not None:
        max_bytes = min(max_bytes, meter.fetch_budget)

    def response(found: FetchResult) -> Steps[FetchResponse]:
        leaders = CurrentLeaders(services, context.listener_name)
        if follower is not None:
            if follower.throttle is not None:
                count_throttled(follower.throttle, found)
            if services.replication_traffic is not None:
                count_sent(services.replication_traffic, follower.broker_id, found)
        if meter is None:
            return _response(context, scope, found, leaders, is_follower=follower is not None)
        return _metered_response(services, context, meter, scope, found, leaders)

    steps = fetch(
        scope.partitions,
        _Finder(services, context, _replica_id(request)),
        isolation,
        FetchLimits(request.min_bytes, max_bytes, request.max_wait_ms),
        response,
        timers=services.timers,
        slices=services.slices,
        follower=follower,
        unread=None if follower is None else _unread(scope, follower),
        waits=None if follower is None else services.follower_waits,
    )
    return when_large(len(scope.partitions), steps)


def _replica_id(request: FetchRequest) -> int:
    """Return the broker id of the follower that fetches, -1 for a consumer."""
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def _follower(services: BrokerServices, request: FetchRequest) -> FetchingFollower | None:
    """Return the follower that fetches, None for a consumer."""
    broker_id = _replica_id(request)
    if broker_id < 0:
        return None
    state = request.replica_state
    alive = services.metadata.image.brokers.get(broker_id)
    throttle = services.leader_throttle
    return FetchingFollower(
        broker_id,
        NO_EPOCH if state is None else state.replica_epoch,
        NO_EPOCH if alive is None else alive.epoch,
        services.clock.monotonic_ms(),
        joins=services.follower_joins,
        throttle=throttle if throttle is not None and throttle.is_active else None,
    )


def _unread(scope: FetchScope, follower: FetchingFollower) -> Unread:
    if scope.unread is not None:
        return scope.unread
    return Unread(follower.broker_id, scope.partitions, follower.now_ms, lasts=False)


class _Finder:
    """Looks up the partitions of one request and authorizes its topics, each once."""

    def __init__(self, services: BrokerServices, context: RequestContext, replica_id: int) -> None:
        self._services = services
        self._context = context
        self._replica_id = replica_id
        self._by_key: dict[PartitionKey, Partition] = {}
        # By the name of a topic: True if the client may read it.
        self._allowed: dict[str, bool] = {}

    @property
    def found(self) -> list[Partition]:
        return list(self._by_key.values())

    def find(self, key: PartitionKey) -> Partition:
        partition = self._by_key.get(key)
        if partition is None or not partition.is_leader:
            # The topic may have been deleted while the request was parked.
            partition = self._by_key[key] = self._look_up(key)
        return partition

    def _look_up(self, key: PartitionKey) -> Partition:
        services = self._services
        if isinstance(key.topic, bytes):
            name = services.metadata.image.topic_name(key.topic)
            if name is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            name = key.topic
        allowed = self._allowed.get(name)
        if allowed is None:
            allowed = self._allowed[name] = (
                self._context.may(Operation.READ, topic=name)
                if self._replica_id < 0
                else self._context.may(Operation.CLUSTER_ACTION, CLUSTER)
            )
        if not allowed:
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = services.partitions.require(name, key.partition)
        if isinstance(key.topic, bytes) and partition.topic_id != key.topic:
            # As in Kafka (Partition.hasConsistentTopicId).
            raise Refused(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition


def _wanted(topics: Sequence[FetchTopic], by_id: bool) -> list[FetchedPartition]:
    return [
        FetchedPartition(
            PartitionKey(topic.topic_id if by_id else topic.topic, partition.partition),
            partition.fetch_offset,
            partition.partition_max_bytes,
            # As in Kafka, any negative epoch means that the reader does not know the epoch.
            max(partition.current_leader_epoch, NO_EPOCH),
            partition.last_fetched_epoch,
            partition.high_watermark,
            partition.log_start_offset,
        )
        for topic in topics
        for partition in topic.partitions
    ]


def _scope(
    services: BrokerServices,
    context: RequestContext,
    request: FetchRequest,
    wanted: list[FetchedPartition],
) -> FetchScope:
    """Return the partitions to read, with the fetch session of the request. Raises Refused if the
    session is unknown or does not match the request."""
    by_id = context.api_version >= TOPIC_IDS_SINCE
    forgotten = [
        PartitionKey(topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return services.fetch_sessions.scope(
        request.session_id,
        request.session_epoch,
        wanted,
        forgotten,
        principal=context.session.principal,
        uses_topic_ids=by_id,
        now_ms=services.clock.monotonic_ms(),
        replica_id=_replica_with_session(context, request),
    )


def _replica_with_session(context: RequestContext, request: FetchRequest) -> int:
    """Return the broker id of the follower that fetches, CONSUMER for a reader without the right to
    be a follower. Such a reader must not take a follower's session, which is never evicted."""
    replica_id = _replica_id(request)
    if replica_id >= 0 and context.may(Operation.CLUSTER_ACTION, CLUSTER, logged=False):
        return replica_id
    return CONSUMER


def _metered_response(
    services: BrokerServices,
    context: RequestContext,
    meter: RequestMeter,
    scope: FetchScope,
    result: FetchResult,
    leaders: CurrentLeaders,
) -> Steps[FetchResponse]:
    """Return the response of a consumer with quotas. The response of a throttled Fetch is empty,
    and the client repeats the Fetch after the throttle time (Kafka's getThrottledResponse)."""
    size = 0
    if meter.counts_fetched_bytes:
        size = yield from _response_size(context, scope, result)
    if not meter.is_fetch_refused(size):
        return (yield from _response(context, scope, result, leaders, is_follower=False))
    if scope.is_incremental:
        return FetchResponse(session_id=scope.session_id)
    # The empty response does not name the new session, so the client cannot use it.
    services.fetch_sessions.forget(scope.session_id)
    return FetchResponse()


def _response_size(context: RequestContext, scope: FetchScope, result: FetchResult) -> Steps[int]:
    """Return the size of the whole response in bytes, as Kafka's FetchResponse.sizeOf."""
    by_id = context.api_version >= TOPIC_IDS_SINCE
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for found in result.partitions:
        yield
        if scope.is_incremental and not found.is_news():
            continue
        topic = _topic_row(topics, found.wanted.key.topic, by_id=by_id)
        topic.partitions.append(_partition(found))
    size = 4

    def count(part: Any) -> None:
        nonlocal size
        size += len(part)

    response = FetchResponse(session_id=scope.session_id, responses=list(topics.values()))
    for _ in sliced_encoder(FetchResponse, context.api_version)(response, count):
        yield
    return size


def _topic_row(
    topics: dict[str | bytes, FetchableTopicResponse], key: str | bytes, *, by_id: bool
) -> FetchableTopicResponse:
    """Return the row of a topic, which is added to `topics` at its first partition."""
    topic = topics.get(key)
    if topic is None:
        topic = topics[key] = FetchableTopicResponse()
        if by_id:
            topic.topic_id = key  # type: ignore[assignment]  # an id from v13 on
        else:
            topic.topic = key  # type: ignore[assignment]  # a name before v13
    return topic


def _response(
    context: RequestContext,
    scope: FetchScope,
    result: FetchResult,
    leaders: CurrentLeaders,
    *,
    is_follower: bool,
) -> Steps[FetchResponse]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for found in result.partitions:
        yield
        if scope.is_incremental and not found.is_news():
            continue
        key = found.wanted.key
        topic = topics.get(key.topic)
        if topic is None:
            topic = _topic_row(topics, key.topic, by_id=by_id)
        data = _partition(found)
        if found.code in MOVED and context.api_version >= LEADERS_SINCE:
            data.current_leader = LeaderIdAndEpoch(*leaders.of(key.topic, key.partition))
        topic.partitions.append(data)
        if data.records and found.partition is not None and not is_follower:
            found.partition.traffic.bytes_out += len(data.records)
        if scope.session is not None:
            found.mark_sent()
            if found.read is not None and found.read.records is not None:
                scope.session.to_end(key)
    # A follower knows the addresses of brokers from the metadata. Kafka sends none to a follower
    # either.
    known = leaders.endpoints.values()
    endpoints = [] if is_follower else [NodeEndpoint(*endpoint) for endpoint in known]
    return FetchResponse(
        session_id=scope.session_id,
        responses=list(topics.values()),
        node_endpoints=endpoints,
    )


def _partition(found: PartitionResult) -> PartitionData:
    read = found.read
    if read is None:
        return PartitionData(
            partition_index=found.wanted.key.partition,
            error_code=found.code,
            high_watermark=NO_OFFSET,
            last_stable_offset=NO_OFFSET,
            log_start_offset=NO_OFFSET,
            aborted_transactions=[] if found.code in NOT_READ else None,
            records=b"",
        )
    data = PartitionData(
        partition_index=found.wanted.key.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None
        if read.aborted is None
        else [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in read.aborted
        ],
        records=b"" if read.records is None else read.records,
        # None avoids the construction of three default values.
        diverging_epoch=None,
        current_leader=None,
        snapshot_id=None,
    )
    if found.diverging is not None:
        epoch, end_offset = found.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data
