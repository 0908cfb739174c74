"""Fetch requests of followers, and requests for partitions of other brokers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.follower_waits import BRIEF_WAIT_MS, FollowerWaits
from oncelog_server.fetching.parked import HIGH_WATERMARK_DELAY_MS
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.handlers import fetch, produce
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.request_limits import max_elements
from oncelog_server.security.authorizer import Authorizer
from oncelog_server.security.resources import Operation
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import Denying, StillClock, ask, broker, context
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition, waiter

NAME = TopicPartition("orders", 0)
LEADER, FOLLOWER = 1, 2
# A coordinator that this test does not use.
UNASKED: Any = SimpleNamespace(add_partitions=None)


async def with_orders(
    services: BrokerServices, authorizer: Authorizer | None = None
) -> tuple[BrokerServices, Partition]:
    """Return a broker that leads a partition with two records and a follower."""
    await services.metadata.create_topics([NewTopic(NAME.topic)])
    both = (LEADER, FOLLOWER)
    topic_id = services.metadata.image.topics[NAME.topic].id
    led = partition(name=NAME, isr=both, replicas=both, topic_id=topic_id)
    led.become_leader(LEADER, 1, (LEADER, FOLLOWER), (LEADER, FOLLOWER))
    led.append(batch(2), now_ms=NOW_MS)
    services.partitions.add(led)
    made = replace(
        services,
        clock=StillClock(),
        timers=ManualTimers(),
        fetch_sessions=FetchSessions(1, iter(range(1, 100)).__next__),
    )
    return made, led


def request(
    services: BrokerServices, offset: int, *, version: int = 18, wait_ms: int = 0,
    leader_epoch: int = 1, high_watermark: int = 2**63 - 1, session_epoch: int = -1,
) -> Any:  # fmt: skip
    row = FetchPartition(
        0, leader_epoch, offset, partition_max_bytes=1_000, high_watermark=high_watermark
    )
    topic = FetchTopic(NAME.topic, services.metadata.image.topics[NAME.topic].id, [row])
    return FetchRequest(
        replica_id=FOLLOWER,
        replica_state=ReplicaState(FOLLOWER, -1) if version >= 15 else None,
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_epoch=session_epoch,
        topics=[topic],
    )


@pytest.mark.parametrize("version", [9, 12, 14, 15, 18])
async def test_a_follower_gets_records_that_no_consumer_sees_yet(version: int) -> None:
    async with broker() as bare:
        services, led = await with_orders(bare)
        codes = waiter(led, 2)
        asking = context(services, fetch.API, version)
        response: Any = fetch.handle(services, asking, request(services, 0, version=version))
        (row,) = response.responses[0].partitions
        assert (row.error_code, row.high_watermark, len(row.records) > 0) == (0, 0, True)
        response = await ask(fetch, services, request(services, 2, version=version), version)
        (row,) = response.responses[0].partitions
        assert (row.error_code, row.high_watermark, codes) == (0, 2, [ErrorCode.NONE])
        assert not led.read_waiters
        assert not led.follower_waiters


async def test_a_parked_follower_gets_the_next_record() -> None:
    async with broker() as bare:
        services, led = await with_orders(bare)
        asking = context(services, fetch.API, 18)
        parked = fetch.handle(services, asking, request(services, 2, wait_ms=60_000))
        assert isinstance(parked, Deferred)
        assert led.high_watermark == 2
        led.append(batch(), now_ms=NOW_MS)
        assert isinstance(services.timers, ManualTimers)
        services.timers.run_soon()
        (row,) = parked.value.responses[0].partitions
        assert (bool(row.records), row.high_watermark) == (True, 2)


async def test_a_new_leadership_ends_the_parked_fetch_of_a_follower() -> None:
    async with broker() as bare:
        made, _ = await with_orders(bare)
        waits = FollowerWaits(made.clock.monotonic_ms)
        services = replace(made, follower_waits=waits)
        asking = context(services, fetch.API, 18)
        parked = fetch.handle(services, asking, request(services, 2, wait_ms=60_000))
        assert isinstance(parked, Deferred)
        waits.shorten()
        assert parked.done
        assert not waits.parked
        brief = fetch.handle(services, asking, request(services, 2, wait_ms=60_000))
        assert isinstance(brief, Deferred)
        assert isinstance(services.timers, ManualTimers)
        services.timers.advance(BRIEF_WAIT_MS)
        assert brief.done


async def test_KIP1166_a_follower_that_does_not_know_the_high_watermark_waits_briefly() -> None:
    async with broker() as bare:
        services, led = await with_orders(bare)
        asking = context(services, fetch.API, 18)
        behind = request(services, 2, wait_ms=60_000, high_watermark=1)
        parked = fetch.handle(services, asking, behind)
        assert isinstance(parked, Deferred)
        assert isinstance(services.timers, ManualTimers)
        services.timers.advance(HIGH_WATERMARK_DELAY_MS)
        (row,) = parked.value.responses[0].partitions
        assert (row.records, row.high_watermark) == (b"", 2)
        assert not led.read_waiters
        assert not led.follower_waiters


async def test_a_fetch_of_a_session_waits_and_gets_a_record_of_a_partition_without_changes() -> (
    None
):
    async with broker() as bare:
        services, led = await with_orders(bare)
        full = request(services, 2, session_epoch=0)
        session_id = (await ask(fetch, services, full)).session_id

        def more(epoch: int, wait_ms: int) -> Any:
            state = ReplicaState(FOLLOWER, -1)
            return fetch.handle(
                services,
                context(services, fetch.API, 18),
                FetchRequest(
                    replica_state=state, max_wait_ms=wait_ms, min_bytes=1, session_id=session_id,
                    session_epoch=epoch,
                ),
            )  # fmt: skip

        assert more(1, 0).responses == []
        (session,) = services.fetch_sessions._sessions.values()
        assert session.unread is not None
        assert session.unread.rows() == []
        parked = more(2, 60_000)
        assert isinstance(parked, Deferred)
        led.append(batch(), now_ms=NOW_MS)
        assert isinstance(services.timers, ManualTimers)
        services.timers.run_soon()
        (row,) = parked.value.responses[0].partitions
        assert len(row.records) > 0


async def test_a_reader_without_the_right_takes_no_session_of_a_follower() -> None:
    denied = Denying((Operation.CLUSTER_ACTION, "kafka-cluster"))
    async with broker(authorizer=denied) as bare:
        services, _ = await with_orders(bare)
        for _ in range(3):
            response = await ask(fetch, services, request(services, 0, session_epoch=0))
            (row,) = response.responses[0].partitions
            assert row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(services.fetch_sessions) == 1


async def test_a_follower_has_a_session_also_if_consumers_have_all_slots() -> None:
    async with broker() as bare:
        services, _ = await with_orders(bare)
        consumer = request(services, 0, session_epoch=0)
        consumer.replica_state = None
        assert (await ask(fetch, services, consumer)).session_id
        follower = request(services, 2, session_epoch=0)
        assert (await ask(fetch, services, follower)).session_id
        assert len(services.fetch_sessions) == 2


async def test_a_follower_outside_of_the_isr_is_noted_as_joining() -> None:
    async with broker() as bare:
        made, led = await with_orders(bare)
        joining: list[Partition] = []
        services = replace(made, follower_joins=joining.append)
        await ask(fetch, services, request(services, 2))
        assert joining == []
        led.become_leader(LEADER, 1, (LEADER,), (LEADER, FOLLOWER))
        await ask(fetch, services, request(services, 2))
        assert joining == [led]


def test_a_full_fetch_of_all_partitions_that_a_cluster_may_have_is_served() -> None:
    most = Settings().oncelog_max_partitions
    # Each partition in a topic of its own: two elements.
    assert max_elements(fetch.API, most) >= 2 * most


# --- partitions of other brokers


async def elsewhere(services: BrokerServices) -> BrokerServices:
    """Return a broker that has no replica of the topic, which the metadata has."""
    await services.metadata.create_topics([NewTopic(NAME.topic)])
    image = services.metadata.image
    known = Partitions(lambda topic, index: image.partition(topic, index) is not None)
    return replace(
        services,
        partitions=known,
        clock=StillClock(),
        timers=ManualTimers(),
        fetch_sessions=FetchSessions(10, lambda: 1),
    )


@pytest.mark.parametrize("version", [9, 12, 13])
async def test_KIP951_a_producer_is_sent_to_the_leader_of_a_partition_of_other_brokers(
    version: int,
) -> None:
    async with broker() as bare:
        services = await elsewhere(bare)
        topic_id = services.metadata.image.topics[NAME.topic].id
        data = [PartitionProduceData(0, batch())]
        topics = [TopicProduceData(NAME.topic, topic_id, data)]
        services = replace(services, transactions=UNASKED)
        response = await ask(produce, services, ProduceRequest(None, -1, 1_000, topics), version)
        (row,) = response.responses[0].partition_responses
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if version >= 10:
            assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)
            assert [endpoint.host for endpoint in response.node_endpoints] == ["inside"]


async def test_KIP951_a_reader_is_sent_to_the_leader_of_a_partition_of_other_brokers() -> None:
    async with broker() as bare:
        services = await elsewhere(bare)
        consumer = request(services, 0, leader_epoch=-1)
        consumer.replica_state = None
        response = await ask(fetch, services, consumer)
        (row,) = response.responses[0].partitions
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert row.current_leader.leader_id == 1
        assert [endpoint.port for endpoint in response.node_endpoints] == [9092]
