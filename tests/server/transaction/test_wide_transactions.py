"""The coordinator writes the markers of a transaction over very many partitions in slices, and
other requests run between the slices."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.slices import SMALL, Slices
from oncelog_server.topic_partition import TopicPartition
from tests.server.transaction.world import A0, World, value_of

WIDE = [TopicPartition("wide", number) for number in range(3 * SMALL)]
STEPS = 10


@pytest.fixture
def world() -> World:
    world = World()
    for name in WIDE:
        world.partitions[name] = world._open(name)
    slices = Slices(world.timers, world.now, steps_per_slice=STEPS)
    world.transactions._completion.work = slices.run
    return world


def marked(world: World) -> int:
    return sum(world.partitions[name].log_end_offset > 0 for name in WIDE)


def test_markers_are_written_in_slices_with_other_requests_between(world: World) -> None:
    wide = world.producer("wide")
    world.add(wide, *WIDE, transactional_id="wide")
    other = world.producer("other")
    response = world.end(wide, True, transactional_id="wide")
    assert isinstance(response, Deferred)
    most = turns = 0
    while world.timers.soon:
        before = marked(world)
        world.timers.soon.pop(0)()
        most = max(most, marked(world) - before)
        turns += 1
        if turns == 3:
            world.add(other, A0, transactional_id="other")
            assert value_of(world.end(other, True, transactional_id="other")).code == 0
            busy = world.add(wide, A0, transactional_id="wide")
            assert value_of(busy).code is ErrorCode.CONCURRENT_TRANSACTIONS
            assert not response.done
    assert most <= STEPS
    assert marked(world) == len(WIDE)
    assert response.value.code is ErrorCode.NONE


def test_after_the_loss_of_the_shard_no_more_markers_are_written(world: World) -> None:
    wide = world.producer("wide")
    world.add(wide, *WIDE, transactional_id="wide")
    world.end(wide, True, transactional_id="wide")
    world.timers.soon.pop(0)()
    before = marked(world)
    world.transactions.resign(0)
    world.timers.run_soon()
    assert marked(world) == before
    with pytest.raises(Refused):
        world.transactions.owner("wide")


def test_a_crash_between_markers_loses_none(world: World) -> None:
    wide = world.producer("wide")
    world.add(wide, *WIDE, transactional_id="wide")
    world.end(wide, True, transactional_id="wide")
    world.timers.soon.pop(0)()
    assert 0 < marked(world) < len(WIDE)
    ((_, shard),) = world.crash().transactions.runtime.shards()
    (work,) = shard.marker_works()
    assert set(work.partitions) == set(WIDE)
