"""The group coordinator with real shards, partitions and timers."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.coordinator.runtime import _Load
from oncelog_server.deferred import Deferred
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.group.moment import Caller
from oncelog_server.refusal import Refused
from oncelog_server.slices import Slices
from oncelog_server.topic_partition import TopicPartition
from tests.server.manual_timers import ManualTimers
from tests.server.transaction.world import GROUP, OFFSETS, World, value_of


def join(world: World, group: str = GROUP) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    caller = Caller(now_ms=world.now(), wall_ms=world.wall(), api_version=3)
    return world.groups.run(group, lambda shard: shard.join_group(request, caller))


def test_timers_of_a_shard_fire_at_their_time() -> None:
    world = World()
    first = join(world)
    assert isinstance(first, Deferred)
    world.timers.advance(2_999)
    assert not first.done
    world.timers.advance(1)
    assert first.value.error_code == ErrorCode.NONE


def test_timers_of_many_groups_fire_in_order_and_none_is_lost() -> None:
    world = World()
    answers = []
    for number in range(5):
        answers.append(join(world, f"g{number}"))
        world.timers.advance(500)
    assert len(world.timers.waiting) == 1
    world.timers.advance(3_000)
    assert all(isinstance(answer, Deferred) and answer.done for answer in answers)


def test_a_group_whose_shard_moves_away_gets_not_coordinator() -> None:
    world = World()
    answer = join(world)
    world.groups.resign(0)
    assert isinstance(answer, Deferred)
    assert answer.value.error_code == ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused) as refused:
        join(world)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_S16_after_a_failed_fsync_requests_are_refused_and_none_waits_for_ever() -> None:
    world = World(flush_on_ack=True)
    member = join(world)
    world.settle(3_000)
    assert isinstance(member, Deferred)
    assert member.value.error_code == ErrorCode.NONE
    world.files.fail_sync()
    refused = join(world, "other")
    assert isinstance(refused, Deferred)
    early = world.groups.describe(GROUP)
    assert isinstance(early, Deferred)
    world.settle()
    assert refused.value.error_code == ErrorCode.NOT_COORDINATOR
    assert early.abandoned
    with pytest.raises(Refused) as raised:
        world.groups.describe(GROUP)
    assert raised.value.code is ErrorCode.NOT_COORDINATOR
    # Timers of the groups still fire. They too leave no request that waits for a commit.
    world.settle(600_000)
    assert len(world.partitions[OFFSETS].commit_waiters) == 0


def loading(world: World) -> World:
    """Return the broker after a crash. It loads the group's shard, and the input topic is deleted
    during the load."""
    after = world.crash()
    after.groups.resign(0)
    after.groups.runtime._work = Slices(after.timers, after.now, steps_per_slice=1).run
    after.groups.lead(after.partitions[OFFSETS])
    assert after.groups.runtime.is_loading
    assert after.groups.views.is_loading
    deleted = ImageDelta(topics_deleted=(TopicImage("in", bytes(16), "", {}, (), 0),))
    after.groups.follow(ClusterImage(), ClusterImage(), deleted)
    return after


def with_offset(world: World, offset: int) -> World:
    """Commit an offset of the input partition, and return `world`."""
    producer = world.producer()
    value_of(world.add(producer, OFFSETS))
    world.commit_offset(producer, offset)
    value_of(world.end(producer, True))
    return world


def test_offsets_of_a_topic_that_is_deleted_while_they_load_are_deleted() -> None:
    world = loading(with_offset(World(), 5))
    world.settle()
    assert world.offset() == (ErrorCode.NONE, -1)


@pytest.mark.parametrize("ends", [True, False])
def test_offsets_of_a_recreated_topic_survive_the_next_load(ends: bool) -> None:
    """The topic was deleted during the first load. That load ends, or is abandoned because another
    broker leads."""
    world = loading(with_offset(World(), 5))
    if ends:
        world.settle()
        with_offset(world, 6)
        world.groups.resign(0)
    else:
        world.groups.resign(0)
        world.timers.run_soon()
    world.groups.lead(world.partitions[OFFSETS])
    world.settle()
    assert world.offset() == (ErrorCode.NONE, 6 if ends else 5)


def test_offsets_of_a_recreated_topic_survive_while_another_shard_still_loads() -> None:
    """The topic was deleted while the other shard was loading, before the load of the group's shard
    began."""
    world = with_offset(World(), 5)
    runtime = world.groups.runtime
    world.groups.resign(0)
    runtime._loading[1] = _Load(0)
    deleted = ImageDelta(topics_deleted=(TopicImage("in", bytes(16), "", {}, (), 0),))
    world.groups.follow(ClusterImage(), ClusterImage(), deleted)
    world.groups.lead(world.partitions[OFFSETS])
    world.settle()
    assert world.offset() == (ErrorCode.NONE, 5)
    assert list(world.groups._deleted_meanwhile) == [1]


def test_before_the_offsets_topic_is_created_there_is_no_coordinator() -> None:
    coordinator = GroupCoordinator(
        partition_count=lambda: 0,
        config=GroupConfig(),
        new_member_id=str,
        timers=ManualTimers(),
        wall_ms=lambda: 0,
        monotonic_ms=lambda: 0,
    )
    with pytest.raises(Refused) as refused:
        coordinator.offsets_partition(GROUP)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Refused) as refused:
        coordinator.run(GROUP, lambda shard: shard.delete_groups([GROUP]))
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_a_groups_offsets_are_in_the_partition_of_its_hash() -> None:
    assert World().groups.offsets_partition(GROUP) == TopicPartition(*OFFSETS)
