"""A member stays in its group while its application polls, and leaves when the application closes
it. Deleted topics and failed requests do not change that."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

import pytest

from oncelog_client import Admin, Consumer, KafkaError, Producer, TopicPartition
from oncelog_client.config import consumer_config
from oncelog_client.core.membership import MemberState
from oncelog_client.core.subscription import Subscription
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.group_session import GroupSession
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.harness.client_reading import DEADLINE_S, eventually, poll_until, read

STRATEGY: Final = "cooperative-sticky"


class Coordinator:
    """The coordinator of a group in which the tested member is a follower. `heard` has the requests
    in order."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[object] = asyncio.Queue()
        self.heartbeat_code: int = ErrorCode.NONE

    async def call(self, kind: object, key: str, request: object, *_: Any, **__: Any) -> object:
        self.heard.put_nowait(request)
        match request:
            case JoinGroupRequest():
                return JoinGroupResponse(
                    generation_id=1, protocol_name=STRATEGY, leader="other", member_id="me"
                )
            case SyncGroupRequest():
                return SyncGroupResponse()
            case HeartbeatRequest():
                return HeartbeatResponse(error_code=self.heartbeat_code)
            case LeaveGroupRequest():
                return LeaveGroupResponse()
        raise AssertionError(request)

    async def hear(self, kind: type[object]) -> None:
        """Wait for a request of this type."""
        async with asyncio.timeout(DEADLINE_S):
            while not isinstance(await self.heard.get(), kind):
                pass


async def nothing() -> None:
    """Commit no offsets."""


@pytest.fixture
async def member(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a session in the middle of its first round, and its coordinator."""
    config = consumer_config(
        "127.0.0.1:9",
        {
            "group_id": "g",
            "heartbeat_interval_ms": 10,
            "partition_assignment_strategy": [STRATEGY],
        },
    )
    cluster, coordinator = Cluster(config, auto_create=False), Coordinator()
    monkeypatch.setattr(cluster, "call_coordinator", coordinator.call)
    subscription = Subscription()
    subscription.subscribe_topics(["t"])
    session = GroupSession(cluster, config, subscription, wake=lambda: None, commit=nothing)
    cluster.spawn(session.heartbeats())
    await session.poll()
    yield session, coordinator
    await cluster.close()


async def test_a_member_that_does_not_poll_sends_heartbeats_after_the_rebalance(
    member: Any,
) -> None:
    """A former defect: a member was removed if more than a session timeout passed between two
    polls."""
    session, coordinator = member
    await coordinator.hear(HeartbeatRequest)
    assert session.needs_attention


async def test_a_member_that_leaves_for_lack_of_polls_wakes_the_poll(
    member: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, coordinator = member
    await coordinator.hear(HeartbeatRequest)
    woken = asyncio.Event()
    monkeypatch.setattr(session, "_wake", woken.set)
    session.membership.polled(-math.inf)
    async with asyncio.timeout(DEADLINE_S):
        await woken.wait()
    await coordinator.hear(LeaveGroupRequest)
    assert session.needs_attention


async def test_a_member_joins_again_after_an_unexpected_error_of_a_round(
    member: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, coordinator = member
    await coordinator.hear(HeartbeatRequest)
    await session.poll()
    session.membership.require_rejoin("the test")
    with monkeypatch.context() as patch:
        patch.setattr(session.membership, "is_leader", lambda _: 1 // 0)
        await session.poll()
        await asyncio.wait({session._round})
    with pytest.raises(ZeroDivisionError):
        await session.poll()
    await session.poll()
    await coordinator.hear(SyncGroupRequest)
    await coordinator.hear(HeartbeatRequest)
    assert session.membership.state is MemberState.STABLE


async def test_a_leader_that_is_reset_before_its_sync_sends_no_sync(
    member: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a SyncGroup would have no generation and no member id."""
    session, coordinator = member
    await coordinator.hear(HeartbeatRequest)
    await session.poll()
    session.membership.require_rejoin("the test")

    async def reset(_: object) -> None:
        session.membership.start_over()

    with monkeypatch.context() as patch:
        patch.setattr(session, "_assignments", reset)
        await session.poll()
        await asyncio.wait({session._round})
    await session.poll()
    await coordinator.hear(JoinGroupRequest)
    assert isinstance(await coordinator.heard.get(), JoinGroupRequest)


async def test_the_assignment_of_an_ended_generation_is_ignored(member: Any) -> None:
    session, coordinator = member
    coordinator.heartbeat_code = ErrorCode.UNKNOWN_MEMBER_ID
    await coordinator.hear(HeartbeatRequest)
    assert session.membership.state is MemberState.UNJOINED
    coordinator.heartbeat_code = ErrorCode.NONE
    generations: list[int] = []

    async def assigned(_: object, generation_id: int) -> None:
        generations.append(generation_id)

    session.listener.on_partitions_assigned = assigned

    async def has_joined() -> bool:
        await session.poll()
        return not session.needs_attention

    await eventually(has_joined)
    assert generations == [1]


async def test_the_metadata_of_polled_records_lasts_until_the_member_joins_or_leaves(
    member: Any,
) -> None:
    """The producer sends this metadata with the offsets of a transaction. Without a generation, the
    broker would not check the offsets (KIP-447, seed 61329 of the simulation)."""
    session, coordinator = member
    membership = session.membership
    assert membership.metadata.generation_id == -1

    async def has_joined() -> bool:
        await session.poll()
        return not session.needs_attention

    await eventually(has_joined)
    polled = membership.metadata
    assert (polled.generation_id, polled.member_id) == (1, "me")
    coordinator.heartbeat_code = ErrorCode.UNKNOWN_MEMBER_ID
    await coordinator.hear(HeartbeatRequest)
    assert membership.state is MemberState.UNJOINED
    assert membership.metadata == polled
    await session.leave("closed")
    assert (membership.metadata.generation_id, membership.metadata.member_id) == (-1, "")


async def test_a_member_leaves_although_its_last_commit_is_cancelled(member: Any) -> None:
    """Without a LeaveGroup request, the other members would wait until its session expires."""
    session, coordinator = member
    await coordinator.hear(HeartbeatRequest)
    held = asyncio.Event()

    async def forever() -> None:
        held.set()
        await asyncio.Event().wait()

    session._commit = forever
    await session.poll()
    leaving = asyncio.create_task(session.leave("closed"))
    async with asyncio.timeout(DEADLINE_S):
        await held.wait()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    await coordinator.hear(LeaveGroupRequest)


async def test_a_deleted_topic_does_not_keep_a_member_from_leaving(
    bootstrap: str, admin: Admin, producer: Producer, topic: str, name: str
) -> None:
    await (await producer.send(topic, b"v", partition=0))
    async with asyncio.timeout(DEADLINE_S):
        # The member's Metadata requests must not create the topic again.
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "allow_auto_create_topics": False,
        }
        async with Consumer(bootstrap, group_id=name, **settings) as consumer:
            await consumer.subscribe([topic])
            await read(consumer, 1)
            await admin.delete_topics([topic])

            async def gone() -> bool:
                try:
                    await admin.describe_topics([topic])
                except KafkaError as error:
                    return error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return False

            await eventually(gone)
        assert not (await admin.describe_groups([name]))[name].members


async def test_a_leader_that_came_back_sees_new_partitions(
    bootstrap: str, admin: Admin, topic: str, name: str
) -> None:
    """The JoinGroup response to a returned static member says that it is still the leader and keeps
    its assignment. The leader must nevertheless notice new partitions."""
    settings: dict[str, Any] = {
        "group_id": name,
        "group_instance_id": "one",
        "metadata_max_age_ms": 100,
        "heartbeat_interval_ms": 100,
    }
    for _ in range(2):
        async with Consumer(bootstrap, **settings) as consumer:
            await consumer.subscribe([topic])
            await poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.subscribe([topic])
        await poll_until([consumer], lambda: len(consumer.assignment()) == 2)
        await admin.create_partitions({topic: 4})
        await poll_until([consumer], lambda: len(consumer.assignment()) == 4)
        assert TopicPartition(topic, 3) in consumer.assignment()
