"""Every code path that refuses a producer counts the refusal by cause. If another producer has
fenced the refused producer, the coordinator also remembers the fence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.fences import FenceCause, Fences
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, GroupedTransaction
from tests.server.transaction.group_scenes import Answer, add, end, join, member
from tests.server.transaction.grouped.driver import IN0, IN1
from tests.server.transaction.world import A0, B0, GROUP, World, value_of

FENCED, UNKNOWN = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
OLDER = ErrorCode.ILLEGAL_GENERATION
NEWER_INSTANCE, NEWER_GENERATION = FenceCause.NEWER_INSTANCE, FenceCause.NEWER_GENERATION
SHARDS = 5
# A function that sends the refused request. All steps before the request are done.
Refused = Callable[[], Answer]


def fenced(world: World) -> tuple[int, int]:
    """Return a producer with a transaction that a newer instance has aborted."""
    producer = world.producer()
    world.add(producer, A0)
    world.producer()
    return producer


def add_of_the_fenced(world: World) -> Refused:
    producer = fenced(world)
    return lambda: world.add(producer, B0)


def end_of_the_fenced(world: World) -> Refused:
    producer = fenced(world)
    return lambda: world.end(producer, True)


def init_of_the_fenced(world: World) -> Refused:
    producer = fenced(world)
    return lambda: world.init("t", *producer)


def commit_after_the_time_out(world: World) -> Refused:
    producer = world.producer()
    world.add(producer, A0)
    world.settle(60_001)
    world.transactions.abort_overdue(1)
    world.settle()
    return lambda: world.end(producer, True)


def add_of_an_unknown_id(world: World) -> Refused:
    return lambda: world.add((7, 0), A0, transactional_id="unknown")


def end_of_an_unknown_id(world: World) -> Refused:
    return lambda: world.end((7, 0), True, transactional_id="unknown")


def rotated(world: World) -> tuple[int, int]:
    """Return a producer with the highest possible epoch, after a newer instance has got another
    producer id."""
    producer_id, _ = world.producer()
    live = world.transactions.find("t")
    live.metadata = replace(live.metadata, producer_epoch=LAST_PRODUCER_EPOCH)
    world.producer()
    assert live.metadata.producer_id != producer_id
    return producer_id, LAST_PRODUCER_EPOCH


def add_under_an_older_producer_id(world: World) -> Refused:
    producer = rotated(world)
    return lambda: world.add(producer, A0)


def end_under_an_older_producer_id(world: World) -> Refused:
    producer = rotated(world)
    return lambda: world.end(producer, True)


def outlived(world: World) -> tuple[int, int]:
    """Return the producer id and epoch that a producer with an open transaction had before its
    epoch was last bumped."""
    producer = world.producer()
    again = world.producer("t", producer_id=producer[0], producer_epoch=producer[1])
    world.add(again, A0)
    return producer


def a_late_init_of_its_own(world: World) -> Refused:
    producer = outlived(world)
    return lambda: world.init("t", *producer)


def a_late_init_that_keeps(world: World) -> Refused:
    producer = outlived(world)
    return lambda: world.init("t", *producer, keep=True)


# --- refusals of producers in a consumer group


def init_in_an_older_generation(world: World) -> Refused:
    member(world, "older", 1, IN0)
    member(world, "newer", 2, IN1)
    return lambda: join(world, "older", 1, IN0)


def first_init_in_an_older_generation(world: World) -> Refused:
    member(world, "newer", 2, IN1)
    return lambda: join(world, "unheard of", 1, IN0)


def outdated(world: World) -> GroupedTransaction:
    """Return an idle producer of an older generation."""
    older = member(world, "older", 1, IN0)
    member(world, "newer", 2, IN1)
    return older


def add_in_an_older_generation(world: World) -> Refused:
    older = outdated(world)
    return lambda: add(world, older, A0)


def end_in_an_older_generation(world: World) -> Refused:
    older = outdated(world)
    return lambda: end(world, older)


def end_after_a_restart(world: World) -> Refused:
    """Restart before the refused request. The log has the newer generation, but not its client."""
    older = outdated(world)
    again = world.crash()
    world.__dict__.update(again.__dict__)
    return lambda: end(world, older)


def init_of_the_time_before_the_group(world: World) -> Refused:
    group = partition_for(GROUP, SHARDS)
    names = (f"t-{number}" for number in range(99))
    name = next(name for name in names if partition_for(name, SHARDS) != group)
    producer = world.producer(name)
    command = InitProducerId(name, 60_000, *producer)
    membership = GroupAssignment(GROUP, 1, frozenset({IN0}))
    return lambda: world.transactions.init_producer_id(command, membership)


def parts(world: World) -> tuple[GroupedTransaction, GroupedTransaction]:
    """Return the parent of a group commit and another part of it, both with open transactions."""
    parent, part = member(world, "parent", 1, IN0), member(world, "part", 1, IN1)
    for each in (parent, part):
        assert value_of(add(world, each, A0)).code is ErrorCode.NONE
    return parent, part


def group_commit_of_an_unknown_parent(world: World) -> Refused:
    _, part = parts(world)
    return lambda: end(world, GroupedTransaction("unknown", 7, 0), part)


def group_commit_of_an_older_parent(world: World) -> Refused:
    parent, part = parts(world)
    return lambda: end(world, parent._replace(producer_epoch=parent.producer_epoch + 5), part)


def group_commit_of_an_unknown_part(world: World) -> Refused:
    parent, _ = parts(world)
    return lambda: end(world, parent, GroupedTransaction("unknown", 7, 0))


def group_commit_of_a_part_with_another_id(world: World) -> Refused:
    parent, part = parts(world)
    return lambda: end(world, parent, part._replace(producer_id=7))


def group_commit_of_a_fenced_part(world: World) -> Refused:
    parent, part = parts(world)
    world.transactions.init_producer_id(InitProducerId("part", 60_000, by_operator=True))
    world.settle()
    return lambda: end(world, parent, part)


def group_commit_of_an_older_part(world: World) -> Refused:
    parent, part = parts(world)
    member(world, "part of 2", 2, IN1)
    parent = member(world, "parent", 2, IN0)
    add(world, parent, A0)
    return lambda: end(world, parent, part)


@pytest.mark.parametrize(
    ("site", "code", "cause"),
    [
        (add_of_the_fenced, FENCED, NEWER_INSTANCE),
        (end_of_the_fenced, FENCED, NEWER_INSTANCE),
        (init_of_the_fenced, FENCED, NEWER_INSTANCE),
        (commit_after_the_time_out, FENCED, FenceCause.TIMED_OUT),
        (add_of_an_unknown_id, UNKNOWN, None),
        (end_of_an_unknown_id, UNKNOWN, None),
        (add_under_an_older_producer_id, UNKNOWN, NEWER_INSTANCE),
        (end_under_an_older_producer_id, UNKNOWN, NEWER_INSTANCE),
        (a_late_init_of_its_own, FENCED, None),
        (a_late_init_that_keeps, FENCED, None),
        (init_in_an_older_generation, OLDER, NEWER_GENERATION),
        (first_init_in_an_older_generation, OLDER, NEWER_GENERATION),
        (add_in_an_older_generation, OLDER, NEWER_GENERATION),
        (end_in_an_older_generation, OLDER, NEWER_GENERATION),
        (end_after_a_restart, OLDER, NEWER_GENERATION),
        (init_of_the_time_before_the_group, FENCED, None),
        (group_commit_of_an_unknown_parent, UNKNOWN, None),
        (group_commit_of_an_older_parent, FENCED, None),
        (group_commit_of_an_unknown_part, UNKNOWN, None),
        (group_commit_of_a_part_with_another_id, UNKNOWN, None),
        (group_commit_of_a_fenced_part, FENCED, FenceCause.OPERATOR),
        (group_commit_of_an_older_part, OLDER, NEWER_GENERATION),
    ],
)
def test_every_refusal_is_counted_by_its_cause(
    site: Callable[[World], Refused], code: ErrorCode, cause: FenceCause | None
) -> None:
    world = World(shards=SHARDS)
    refused = site(world)
    before = counted(world.transactions.fences)
    assert value_of(refused()).code is code
    after = counted(world.transactions.fences)
    assert {
        cause: after[cause] - before[cause] for cause in after if after[cause] != before[cause]
    } == {cause: 1}


def counted(fences: Fences) -> dict[FenceCause | None, int]:
    """Return the number of refused requests by cause. None stands for an unknown cause."""
    known: dict[FenceCause | None, int] = {cause: fences.refused[cause] for cause in FenceCause}
    return known | {None: fences.refused_unknown}


def test_a_refused_two_phase_producer_gets_the_client_of_the_newer_generation() -> None:
    """The newer generation does not fence the producer of a two-phase transaction, because the
    transaction stays open (KIP-939). The coordinator still refuses the producer's requests, and
    remembers the client that began the newer generation."""
    world = World()
    command = InitProducerId("older", 60_000, two_phase=True)
    membership = GroupAssignment(GROUP, 1, frozenset({IN0}))
    begun = value_of(world.transactions.init_producer_id(command, membership))
    older = GroupedTransaction("older", begun.producer_id, begun.producer_epoch)
    add(world, older, A0)
    client = Client("newer", "/10.0.0.2")
    came_ms = world.wall()
    command = InitProducerId("newer", 60_000, caller=client)
    membership = GroupAssignment(GROUP, 2, frozenset({IN1}))
    response = world.transactions.init_producer_id(command, membership)
    assert value_of(response).code is ErrorCode.NONE
    world.settle(5_000)
    assert world.transactions.find("older").fences == ()
    assert value_of(add(world, older, B0)).code is OLDER
    (fence,) = world.transactions.find("older").fences
    assert (fence.cause, fence.by, fence.at_ms) == (NEWER_GENERATION, client, came_ms)


def test_a_late_request_without_a_producer_has_no_producer_in_its_fence() -> None:
    """The refused request names no producer, so the fence has the producer id -1 and not the id of
    the current producer."""
    world = World()
    member(world, "older", 1, IN0)
    member(world, "older", 2, IN0)
    late = Client("late", "/10.0.0.3")
    command = InitProducerId("older", 60_000, caller=late)
    for _ in range(2):
        membership = GroupAssignment(GROUP, 1, frozenset({IN0}))
        refused = world.transactions.init_producer_id(command, membership)
        assert value_of(refused).code is OLDER
    *_, fence = world.transactions.find("older").fences
    assert (fence.producer_id, fence.owner, fence.refusals) == (-1, late, 2)
