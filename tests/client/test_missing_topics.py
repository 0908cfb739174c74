"""Topics that do not exist yet: which topics the client requests, and how often. The tests run in
simulated time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from oncelog_client import Consumer, KafkaError, Producer, TopicPartition
from oncelog_client.core.group_protocol import rows_by_topic
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tests.client.scripted_broker import TOPIC, ScriptedBroker, messages, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)


class LateTopicBroker(ScriptedBroker):
    """A broker without a topic until `exists` is set. `refusal` is its error for a missing
    topic."""

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.exists = False
        self.refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _respond(self, api: ApiKey, request: Any) -> Any:
        if api is ApiKey.METADATA and request.topics and not self.exists:
            return self.respond(api, 12, request, self.refusal)
        return None

    @property
    def metadata_times_s(self) -> list[float]:
        """The times of the Metadata requests that name the topic."""
        return [
            at_s
            for at_s, api, request in self.requests
            if api is ApiKey.METADATA and TOPIC in [topic.name for topic in request.topics]
        ]


def settings(**more: Any) -> dict[str, Any]:
    return {"auto_offset_reset": "earliest", "default_api_timeout_ms": 1_000, **more}


@pytest.mark.parametrize("looks_up", [False, True])
def test_a_consumer_reads_a_subscribed_topic_soon_after_its_creation(looks_up: bool) -> None:
    """A former defect: the topic was requested again only after metadata.max.age.ms. After a failed
    `partitions_for`, the topic was never requested again."""
    broker = LateTopicBroker()

    async def scenario() -> frozenset[TopicPartition]:
        async with Consumer(SERVER, group_id="g", **settings()) as consumer:
            await consumer.subscribe(TOPIC)
            if looks_up:
                with pytest.raises(KafkaError):
                    await consumer.partitions_for(TOPIC)
            await consumer.poll(10_000)
            broker.exists = True
            await consumer.poll(3_000)
            return consumer.assignment()

    assert simulated(broker, scenario) == {PLACE}


@pytest.mark.parametrize("looks_up", [False, True])
def test_a_consumer_reads_an_assigned_partition_soon_after_its_creation(looks_up: bool) -> None:
    broker = LateTopicBroker()

    async def scenario() -> None:
        async with Consumer(SERVER, **settings()) as consumer:
            await consumer.assign([PLACE])
            if looks_up:
                with pytest.raises(KafkaError):
                    await consumer.partitions_for(TOPIC)
            broker.exists = True
            await consumer.poll(3_000)

    simulated(broker, scenario)
    assert broker.counts[ApiKey.FETCH] > 0


def test_a_member_reads_a_partition_of_the_group_s_leader_after_a_failed_look_up() -> None:
    """A former defect: the group's leader assigned the partition of a topic that this member no
    longer requested, so the member never fetched it."""
    broker = LateTopicBroker()
    assigned = encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=rows_by_topic([PLACE]))
    )

    def script(api: ApiKey, request: Any) -> Any:
        m = messages(api)
        if api is ApiKey.JOIN_GROUP:
            return m.JoinGroupResponse(
                generation_id=1,
                protocol_type="consumer",
                protocol_name=request.protocols[0].name,
                leader="another member",
                member_id="me",
            )
        if api is ApiKey.SYNC_GROUP:
            return m.SyncGroupResponse(
                protocol_type="consumer",
                protocol_name=request.protocol_name,
                assignment=assigned,
            )
        return broker._respond(api, request)

    broker.script = script

    async def scenario() -> None:
        async with Consumer(SERVER, group_id="g", **settings()) as consumer:
            await consumer.subscribe(TOPIC)
            with pytest.raises(KafkaError):
                await consumer.partitions_for(TOPIC)
            broker.exists = True
            await consumer.poll(3_000)

    simulated(broker, scenario)
    assert broker.counts[ApiKey.FETCH] > 0


def test_the_leader_assigns_a_topic_of_another_member_soon_after_its_creation() -> None:
    """A former defect: the leader compared only its own topics with the metadata, so the partitions
    of the other member's topic were never assigned."""
    broker = ScriptedBroker()
    exists = False
    assigned: list[set[str]] = []

    def script(api: ApiKey, request: Any) -> Any:
        if api is ApiKey.METADATA:
            response = broker.respond(api, 12, request)
            for topic in response.topics:
                if topic.name == "u" and not exists:
                    topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
            return response
        if api is ApiKey.JOIN_GROUP:
            response = broker.respond(api, 9, request)
            member = messages(api).JoinGroupResponseMember(
                "other", None, encode_subscription(ConsumerProtocolSubscription(topics=["u"]))
            )
            response.members.append(member)
            return response
        if api is ApiKey.SYNC_GROUP:
            assigned.append(
                {
                    topic.topic
                    for row in request.assignments
                    for topic in decode_assignment(row.assignment).assigned_partitions
                }
            )
        return None

    broker.script = script

    async def scenario() -> None:
        nonlocal exists
        async with Consumer(SERVER, group_id="g", **settings()) as consumer:
            await consumer.subscribe(TOPIC)
            await consumer.poll(5_000)
            exists = True
            await consumer.poll(3_000)

    simulated(broker, scenario)
    assert assigned == [{TOPIC}, {TOPIC, "u"}]


def test_a_missing_topic_is_requested_with_a_backoff_that_grows_to_its_maximum() -> None:
    broker = LateTopicBroker()

    async def scenario() -> None:
        async with Consumer(SERVER, **settings()) as consumer:
            await consumer.assign([PLACE])
            await asyncio.sleep(60)

    simulated(broker, scenario)
    times = broker.metadata_times_s
    pauses = [after - before for before, after in pairwise(times)]
    assert 50 <= len(pauses) <= 80
    # retry.backoff.ms is 100, retry.backoff.max.ms is 1,000, each with a jitter of 20 %.
    assert 0.07 <= pauses[0] <= 0.13
    assert all(0.79 <= pause <= 1.21 for pause in pauses[5:])


@pytest.mark.parametrize(
    "refusal", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION]
)
def test_a_topic_with_an_error_that_no_retry_resolves_is_not_requested_again(
    refusal: ErrorCode,
) -> None:
    broker = LateTopicBroker()
    broker.refusal = refusal

    async def scenario() -> None:
        async with Consumer(SERVER, group_id="g", **settings()) as consumer:
            await consumer.subscribe(TOPIC)
            await asyncio.sleep(60)

    simulated(broker, scenario)
    assert len(broker.metadata_times_s) == 1


def test_a_consumer_that_unsubscribes_no_longer_requests_a_missing_topic_in_a_loop() -> None:
    broker = LateTopicBroker()

    async def scenario() -> None:
        async with Consumer(SERVER, group_id="g", **settings()) as consumer:
            await consumer.subscribe(TOPIC)
            await consumer.unsubscribe()
            await asyncio.sleep(60)

    simulated(broker, scenario)
    assert len(broker.metadata_times_s) <= 2


def test_a_failed_send_leaves_the_topic_to_a_send_that_still_waits() -> None:
    """A former defect: the second send failed, although the topic existed before its deadline. The
    end of the first send had removed the topic from all later Metadata requests."""
    broker = LateTopicBroker()

    async def scenario() -> None:
        async with Producer(SERVER, max_block_ms=10_000) as producer:
            first = asyncio.create_task(producer.send_and_wait(TOPIC, b"v"))
            await asyncio.sleep(5)
            second = asyncio.create_task(producer.send_and_wait(TOPIC, b"v"))
            with pytest.raises(KafkaError):
                await first
            broker.exists = True
            await second

    simulated(broker, scenario)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_producer_no_longer_requests_a_topic_that_was_never_found(is_cancelled: bool) -> None:
    """A missing topic of an ended call would be created by the next refresh."""
    broker = LateTopicBroker()

    async def scenario() -> None:
        async with Producer(SERVER, max_block_ms=10_000, metadata_max_age_ms=20_000) as producer:
            sending = asyncio.create_task(producer.send(TOPIC, b"v"))
            await asyncio.sleep(5)
            if is_cancelled:
                sending.cancel()
            await asyncio.wait({sending})
            assert isinstance(sending.cancelled() or sending.exception(), bool | KafkaError)
            await asyncio.sleep(60)

    simulated(broker, scenario)
    assert max(broker.metadata_times_s) - min(broker.metadata_times_s) <= 10


def test_a_topic_that_was_deleted_is_still_requested_for_the_records_that_wait_for_it() -> None:
    """A former defect: a look-up of an earlier used topic that failed removed the topic from all
    later Metadata requests, and the buffered records expired."""
    broker = LateTopicBroker()

    async def scenario() -> None:
        broker.exists = True
        async with Producer(SERVER, max_block_ms=2_000) as producer:
            await producer.send_and_wait(TOPIC, b"v")
            broker.script = script
            pending = await producer.send(TOPIC, b"v")
            broker.exists = False
            await asyncio.sleep(1)
            with pytest.raises(KafkaError):
                await producer.partitions_for(TOPIC)
            broker.exists = True
            await pending

    def script(api: ApiKey, request: Any) -> Any:
        if api is ApiKey.PRODUCE and not broker.exists:
            return broker.respond(api, 9, request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return broker._respond(api, request)

    simulated(broker, scenario)
