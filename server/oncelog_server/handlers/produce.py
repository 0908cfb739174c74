"""Produce v3-13: one record batch for each partition.

v3 transactional id (KIP-98). v5 log start offset in the response. v8 record errors. v9 flexible.
v10 the new leader in the response. v11 TRANSACTION_ABORTABLE. v12 adds its partitions to the
transaction (KIP-890). v13 topic ids (KIP-516). Versions 0-2 are advertised, because librdkafka
looks for them; a request with such a version closes the connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.codecs import row_encoder
from oncelog_protocol.errors import RETRIABLE, ErrorCode, ProtocolError
from oncelog_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from oncelog_protocol.records.batch import (
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL_FLAG,
    read_header,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.producer_id_owners import OF_ANOTHER, ProducerIdOwners
from oncelog_server.cluster.topic_names import INTERNAL_TOPICS
from oncelog_server.deferred import Deferred, gather, then, then_ask
from oncelog_server.handlers.current_leaders import CurrentLeaders
from oncelog_server.log.record_rules import MAX_RECORD_ERRORS, STEP_RECORDS
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import NO_PARTITIONS, are_of
from oncelog_server.producing.large import LargeProduce
from oncelog_server.producing.preparation import prepare, slow_of
from oncelog_server.producing.produce import (
    NONE,
    PartitionAppend,
    Produce,
    TransactionAnswer,
    remember_early,
    transactional_of,
)
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import SMALL, ColdSteps, Steps
from oncelog_server.transaction.error_versions import code_for_version

T = TypeVar("T")
API = ApiKey.PRODUCE

ADDS_PARTITIONS_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
_WRITE: Final = Operation.WRITE
_NOT_THROTTLED: Final = 0
VALID_ACKS: Final = frozenset({-1, 0, 1})

# Errors of the log. Their responses have the log start offset, as in Kafka.
FROM_THE_LOG: Final = frozenset(
    {
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)

# One topic of the request, and its appends.
Topic = tuple[TopicProduceData, list[PartitionAppend]]
# Deferreds that complete when the batches are committed. The response waits for all of them.
Waits = list[Deferred[None]]


Answered = ProduceResponse | Steps[ProduceResponse] | None


def handle(
    services: BrokerServices, context: RequestContext, request: ProduceRequest
) -> Answered | Deferred[Answered]:
    if _size(request.topic_data) > SMALL:
        return _in_slices(services, context, request)
    topics: list[Topic] = []
    appends: list[PartitionAppend] = []
    special: list[PartitionAppend] = []
    for topic in request.topic_data:
        found = _topic(services, context, topic)
        of_topic = _appends(services, context, found, topic, topic.partition_data, special)
        topics.append((topic, of_topic))
        appends += of_topic
    transactional = transactional_of(special) if special else special
    code = _refusal(context, request, transactional)
    if code is not NONE:
        for append in appends:
            append.refuse(code)
    elif special and (slow := slow_of(special, services.clock.now_ms())):
        return _after_preparation(services, context, request, topics, appends, slow)
    return _run(services, context, request, topics, appends, transactional)


def _run(
    services: BrokerServices, context: RequestContext, request: ProduceRequest,
    topics: list[Topic], appends: list[PartitionAppend], transactional: list[PartitionAppend],
) -> Answered | Deferred[Answered]:  # fmt: skip
    """Serve a request. Its slow batches have been prepared. With acks=0, the connection's next
    request waits for a pending result of the transaction coordinator too, as in Kafka."""
    later = _produce(services, context, request, appends, transactional).run()
    if request.acks == 0:
        if later is not None:
            return _close_later(later, appends)
        _close_on_error(appends)
        return None
    if later is None:
        return _response(services, context, topics)
    return _response_after(later, services, context, topics)


def _after_preparation(
    services: BrokerServices, context: RequestContext, request: ProduceRequest,
    topics: list[Topic], appends: list[PartitionAppend], slow: list[PartitionAppend],
) -> Answered | Deferred[Answered]:  # fmt: skip
    """Serve a request with slow batches. The request is finished even if the client disconnects,
    as in `_in_slices`. The connection's next request waits for the response."""
    if not context.keeps_frame:
        for append in appends:
            if append.records is not None:
                append.records = memoryview(bytearray(append.records))
        context.keeps_frame = True
    transactional = transactional_of(appends)
    return then_ask(
        services.slices.run(_metered(context, prepare(slow, services.clock.now_ms()))),
        lambda _: _run(services, context, request, topics, appends, transactional),
    )


def _in_slices(
    services: BrokerServices, context: RequestContext, request: ProduceRequest
) -> Answered | Deferred[Answered]:
    """Serve a request with very many partitions. The request is finished even if the client
    disconnects: with acks=0, a client may disconnect right after its last request."""
    if not context.keeps_frame:
        for topic in request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = bytearray(data.records)
        context.keeps_frame = True
    topics: list[Topic] = []

    def part(some: Sequence[PartitionAppend]) -> Produce:
        return _produce(services, context, request, list(some), transactional_of(some))

    def prepared() -> Steps[tuple[LargeProduce, TransactionAnswer | None]]:
        appends, special = yield from _appends_in_steps(services, context, request, topics)
        transactional = transactional_of(special)
        code = _refusal(context, request, transactional)
        if code is not NONE:
            for append in appends:
                append.refuse(code)
                yield
        else:
            now_ms = services.clock.now_ms()
            yield from prepare(slow_of(special, now_ms), now_ms)
        large = LargeProduce(appends, transactional, part)
        return large, (yield from large.ask())

    def appended(
        asked: tuple[LargeProduce, TransactionAnswer | None],
    ) -> Waits | Deferred[Waits]:
        large, answer = asked
        if answer is None:
            return services.slices.run(_metered(context, large.append(None)))
        return then_ask(
            answer, lambda result: services.slices.run(_metered(context, large.append(result)))
        )

    def committed(waits: Waits) -> Answered | Deferred[Answered]:
        if request.acks == 0:
            for _, of_topic in topics:
                _close_on_error(of_topic)
            return None
        _forget_data(topics)
        all_of: list[None] | Deferred[list[None]] = gather(waits)
        return then(all_of, lambda _: _response_in_steps(services, context, topics))

    preparing = services.slices.run(_metered(context, prepared()))
    return then_ask(then_ask(preparing, appended), committed)


def _metered(context: RequestContext, steps: Steps[T]) -> ColdSteps[T]:
    """Return steps that count against the client's quota of time."""
    return steps if context.meter is None else context.meter.timed(steps)


def _size(topics: list[TopicProduceData]) -> int:
    """Return the number of partitions. If there are several topics, a topic without partitions
    counts as 1."""
    if len(topics) == 1:
        return len(topics[0].partition_data)
    return sum([len(topic.partition_data) or 1 for topic in topics])


def _refusal(
    context: RequestContext, request: ProduceRequest, transactional: Sequence[PartitionAppend]
) -> ErrorCode:
    """Return the error code for all partitions of the request; NONE if it is valid."""
    if (
        transactional
        and request.transactional_id is not None
        and not context.may(Operation.WRITE, transactional_id=request.transactional_id)
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return NONE if request.acks in VALID_ACKS else ErrorCode.INVALID_REQUIRED_ACKS


def _produce(
    services: BrokerServices,
    context: RequestContext,
    request: ProduceRequest,
    appends: list[PartitionAppend],
    transactional: list[PartitionAppend],
) -> Produce:
    return Produce(
        appends,
        transactional,
        request.transactional_id,
        request.acks,
        context.api_version >= ADDS_PARTITIONS_SINCE,
        services.partition_adding,
        services.clock.now_ms(),
        request.timeout_ms,
        services.timers,
        request.transaction_group_id,
        services.settings.transaction_partition_verification_enable,
        context,
        services.adding_retry,
        context.keeps_frame,
    )


def _appends_in_steps(
    services: BrokerServices, context: RequestContext, request: ProduceRequest, topics: list[Topic]
) -> Steps[tuple[list[PartitionAppend], list[PartitionAppend]]]:
    """Return two lists: all appends, and those with the transactional flag or with many records.
    Add each topic of the request, with its appends, to `topics`."""
    appends: list[PartitionAppend] = []
    special: list[PartitionAppend] = []
    for topic in request.topic_data:
        of_topic: list[PartitionAppend] = []
        topics.append((topic, of_topic))
        found = _topic(services, context, topic)
        for start in range(0, len(topic.partition_data), SMALL):
            some = topic.partition_data[start : start + SMALL]
            of_topic += _appends(services, context, found, topic, some, special)
            yield
        appends += of_topic
        yield
    return appends, special


def _appends(
    services: BrokerServices,
    context: RequestContext,
    found: tuple[str | Refused, Mapping[int, Partition]],
    topic: TopicProduceData,
    partition_data: Sequence[PartitionProduceData],
    special: list[PartitionAppend],
) -> list[PartitionAppend]:
    """Return the appends to some partitions of the topic that `_topic` has found. Refuse the
    appends to partitions that this broker does not have, and all appends if the topic is refused.
    Add the appends with the transactional flag or with many records to `special`."""
    name, partitions = found
    here = services.partitions
    appends = []
    for data in partition_data:
        records, header = data.records, None
        if records is not None and len(records) >= HEADER_SIZE:
            header = read_header(records)
        append = PartitionAppend(data.index, records, partitions.get(data.index), header)
        if append.partition is None:
            refused = name if isinstance(name, Refused) else here.missing(name, data.index)
            append.refuse(refused.code, refused.message)
            if header is not None and refused.code in RETRIABLE:
                key = topic.topic_id if isinstance(name, Refused) else name
                remember_early(here.early_sequences, key, data.index, header)
        appends.append(append)
        if header is not None and (
            header.attributes & TRANSACTIONAL_FLAG or header.records_count > STEP_RECORDS
        ):
            special.append(append)
    owners = services.producer_id_owners
    if owners.by_block:
        _refuse_ids_of_others(owners, context, appends)
    return appends


def _refuse_ids_of_others(
    owners: ProducerIdOwners, context: RequestContext, appends: Sequence[PartitionAppend]
) -> None:
    """Refuse the batches with a producer id of another principal (H49)."""
    for append in appends:
        header = append.header
        if (
            append.code is NONE
            and header is not None
            and header.magic == MAGIC
            and header.producer_id >= 0
            and not owners.may_use(context, header.producer_id)
        ):
            message = OF_ANOTHER.format(header.producer_id)
            append.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)


def _topic(
    services: BrokerServices, context: RequestContext, topic: TopicProduceData
) -> tuple[str | Refused, Mapping[int, Partition]]:
    """Return the topic's name and its partitions on this broker. Return Refused for an unknown
    topic id, also if the partitions here are of another topic with this name (Kafka's
    ReplicaManager.getPartitionOrError). Return Refused for a topic that the client may not write or
    that is internal. Internal topics are closed to every client, whatever its client id (H51)."""
    image = services.metadata.image
    name: str | None = topic.name
    topic_id: bytes | None = None
    if context.api_version >= TOPIC_IDS_SINCE:
        topic_id = topic.topic_id
        name = image.topic_name(topic_id)
        if name is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_ID), NO_PARTITIONS
    assert name is not None
    writable = context.session.writable
    if writable.revision != image.revision:
        writable.begin(image.revision)
    key = topic_id or name
    partitions = writable.topics.get(key)
    if partitions:
        return name, partitions
    if not context.may(_WRITE, topic=name):
        return Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED), NO_PARTITIONS
    if name in INTERNAL_TOPICS:
        only = f"only the coordinator writes to {name}"
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, only), NO_PARTITIONS
    partitions = services.partitions.of_topic(name)
    if topic_id is not None and not are_of(topic_id, partitions):
        return Refused(ErrorCode.UNKNOWN_TOPIC_ID), NO_PARTITIONS
    writable.add(key, partitions)
    return name, partitions


def _close_on_error(appends: list[PartitionAppend]) -> None:
    """Raise ProtocolError for the first error. With acks=0 the broker can report an error only by
    closing the connection, as Kafka does."""
    for append in appends:
        if append.code is not ErrorCode.NONE:
            raise ProtocolError(f"Produce with acks=0 failed: {append.code.name}")


def _close_later(
    appended: Deferred[None], appends: list[PartitionAppend]
) -> Answered | Deferred[Answered]:
    """Do the same when all batches are appended or refused. The lambda is not in `_run`: see
    `_response_after`."""
    return then(appended, lambda _: _close_on_error(appends))


def _response_after(
    committed: Deferred[None],
    services: BrokerServices,
    context: RequestContext,
    topics: list[Topic],
) -> Answered | Deferred[Answered]:
    """Return the response when `committed` completes. The lambda is not in `handle`, because it
    would make the local variables of every request slower."""
    _forget_data(topics)
    return then(committed, lambda _: _response(services, context, topics))


def _forget_data(topics: list[Topic]) -> None:
    """Forget the decoded partitions, which refer to the bytes of the request. A response that waits
    for the commit would keep them in memory."""
    for topic, _ in topics:
        topic.partition_data = []


def _response(
    services: BrokerServices, context: RequestContext, topics: list[Topic]
) -> ProduceResponse:
    answers = _Answers(services, context)
    responses = []
    for topic, appends in topics:
        rows = answers.of(topic, appends)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, rows))
    return ProduceResponse(responses, _NOT_THROTTLED, answers.endpoints)


def _response_in_steps(
    services: BrokerServices, context: RequestContext, topics: list[Topic]
) -> Steps[ProduceResponse]:
    answers = _Answers(services, context)
    responses = []
    for topic, appends in topics:
        rows: list[PartitionProduceResponse] = []
        for start in range(0, len(appends), SMALL):
            rows += answers.of(topic, appends[start : start + SMALL])
            yield
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, rows))
        yield
    return ProduceResponse(responses, _NOT_THROTTLED, answers.endpoints)


class _Answers(msgspec.Struct, eq=False):
    """The rows of one response. `endpoints` has the new leaders of partitions that have moved.
    `errors_left` is the number of record errors for which the response has room."""

    services: BrokerServices
    context: RequestContext
    endpoints: list[NodeEndpoint] = []
    errors_left: int = MAX_RECORD_ERRORS

    def of(
        self, topic: TopicProduceData, appends: Sequence[PartitionAppend]
    ) -> list[PartitionProduceResponse]:
        rows = []
        encode_row = row_encoder(PartitionProduceResponse, self.context.api_version)
        for append in appends:
            appended = append.appended
            if append.code is NONE and appended is not None:
                row = encode_row(
                    append.index, NONE, appended.base_offset,
                    appended.log_append_time_ms, appended.log_start_offset,
                )  # fmt: skip
                rows.append(row)
            else:
                rows.append(self._refused(topic, append))
        return rows

    def _refused(
        self, topic: TopicProduceData, append: PartitionAppend
    ) -> PartitionProduceResponse:
        refused = _refused(self.services, self.context, topic, append, self.endpoints)
        if len(append.record_errors) <= self.errors_left:
            self.errors_left -= len(append.record_errors)
            refused.record_errors = [
                BatchIndexAndErrorMessage(error.index, error.message)
                for error in append.record_errors
            ]
        return refused


def _refused(
    services: BrokerServices,
    context: RequestContext,
    topic: TopicProduceData,
    append: PartitionAppend,
    endpoints: list[NodeEndpoint],
) -> PartitionProduceResponse:
    """Return the row of a refused append. Adds the new leader to `endpoints` if the partition has
    moved."""
    refused = PartitionProduceResponse(
        append.index,
        code_for_version(API, context.api_version, append.code),
        base_offset=-1,
        error_message=append.message,
    )
    if append.partition is not None and (append.record_errors or append.code in FROM_THE_LOG):
        refused.log_start_offset = append.partition.log_start_offset
    if append.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leaders = CurrentLeaders(services, context.listener_name)
        key = topic.topic_id if context.api_version >= TOPIC_IDS_SINCE else topic.name
        refused.current_leader = LeaderIdAndEpoch(*leaders.of(key, append.index))
        known = {endpoint.node_id for endpoint in endpoints}
        endpoints += [
            NodeEndpoint(*found) for id_, found in leaders.endpoints.items() if id_ not in known
        ]
    return refused
