"""Transactions of a consumer group, from the request to the log. Each id has one coordinator, and
newer members fence older ones. A group commit is atomic, at every point at which the broker may
end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import cast

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_protocol.records.batch import split_batches
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.refusal import Refused
from oncelog_server.storage.layout import partition_directory
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.completion import FINISHED_PER_TURN
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.shard import LiveTransaction
from tests.server.storage.memory_files import NO_SPACE, MemoryFiles, Stopped
from tests.server.transaction.group_scenes import (
    PARENT,
    Answer,
    GroupCommit,
    add,
    end,
    join,
    member,
    produce,
)
from tests.server.transaction.grouped.driver import IN0, IN1
from tests.server.transaction.log_reading import log_data
from tests.server.transaction.remote.brokers import Brokers
from tests.server.transaction.scenes import outcomes
from tests.server.transaction.test_coordinator_crashes import stepper
from tests.server.transaction.world import (
    A0,
    A1,
    B0,
    DATA,
    GROUP,
    OFFSETS,
    TXN_LOG,
    World,
    value_of,
)

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
SHARDS = 5
DECIDED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


# Makes one broker with all shards, or three brokers.
NewWorld = Callable[..., World]


@pytest.fixture(params=[World, Brokers], ids=["one broker", "three brokers"])
def new_world(request: pytest.FixtureRequest) -> NewWorld:
    return cast(NewWorld, request.param)


def named(elsewhere: bool) -> str:
    """Return a transactional id. Its own coordinator is the group's coordinator, or with
    `elsewhere` another coordinator."""
    group = partition_for(GROUP, SHARDS)
    return next(
        name
        for name in (f"t-{number}" for number in range(99))
        if (partition_for(name, SHARDS) != group) is elsewhere
    )


def in_shard(index: int) -> str:
    """Return a name that is in this shard as a transactional id and as a group id."""
    names = (f"in-{number}" for number in range(99))
    return next(name for name in names if partition_for(name, SHARDS) == index)


# --- fences


def test_a_zombie_of_an_older_generation_is_refused_everywhere_and_its_transaction_aborted(
    new_world: NewWorld,
) -> None:
    world = new_world(shards=SHARDS)
    older = member(world, "older", 1, IN0, IN1)
    append, _ = produce(world, older, A0)
    assert append.code is NONE
    newer = member(world, "newer", 2, IN1)
    assert outcomes(world, A0) == [False]
    for response in (add(world, older, A1), add(world, older, OFFSETS), end(world, older)):
        assert value_of(response).code is ErrorCode.ILLEGAL_GENERATION
    append, _ = produce(world, older, A1)
    assert append.code is ErrorCode.ILLEGAL_GENERATION
    append, _ = produce(world, older, A0)
    assert append.code is not NONE
    assert world.read(A0) == []
    produce(world, newer, A0, b"newer")
    assert value_of(end(world, newer)).code is NONE
    assert world.read(A0) == [b"newer"]
    world.check()


def test_the_new_instance_waits_until_the_markers_of_the_older_one_are_written(
    new_world: NewWorld,
) -> None:
    world = new_world(shards=SHARDS)
    older = member(world, "older", 1, IN0)
    produce(world, older, A0)
    world.scene.leaderless.add(A0)
    for _ in range(3):
        response = value_of(join(world, "newer", 2, IN0))
        assert response.code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.scene.leaderless.clear()
    world.settle(5_000)
    assert value_of(join(world, "newer", 2, IN0)).code is NONE
    assert outcomes(world, A0) == [False]


# --- one coordinator for each id


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_transactional_id_that_joins_a_group_is_fenced_at_its_former_coordinator(
    new_world: NewWorld,
    elsewhere: bool,
) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere)
    plain = world.producer(name)
    world.produce(plain, A0, 0, transactional_id=name)
    joined = member(world, name, 1, IN0)
    assert outcomes(world, A0) == [False]
    assert value_of(world.end(plain, True, transactional_id=name)).code is FENCED
    assert value_of(world.add(plain, A0, transactional_id=name)).code is FENCED
    assert value_of(world.init(name, *plain)).code is FENCED
    produce(world, joined, A0)
    assert value_of(end(world, joined)).code is NONE
    # The second join writes to a single log, so it fences no producer in another log.
    logs = [world.oracle(log).end_offset for log in world.transaction_logs]
    member(world, name, 2, IN0)
    grown = [world.oracle(log).end_offset for log in world.transaction_logs]
    assert sum(new != old for old, new in zip(logs, grown, strict=True)) == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_an_id_that_two_instances_initialize_at_once_has_one_owner(is_first: bool) -> None:
    """One instance joins a group and the other does not. The second call comes before the record of
    the first is committed."""
    world = World(shards=SHARDS, flush_on_ack=True)
    name = named(elsewhere=True)
    calls: list[Callable[[], Answer]] = [
        lambda: join(world, name, 1, IN0),
        lambda: world.init(name),
    ]
    responses = [call() for call in (calls if is_first else calls[::-1])]
    world.settle()
    codes = [value_of(response).code for response in responses]
    assert codes == [NONE, ErrorCode.CONCURRENT_TRANSACTIONS]


def test_an_id_with_a_failed_join_can_be_initialized_without_a_group() -> None:
    world = World(shards=SHARDS)
    name = named(elsewhere=True)
    member(world, "other", 1, IN1)
    world.files.fail_append(match="__transaction_state", reason=NO_SPACE)
    assert value_of(join(world, name, 1, IN0)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.transactions.keeps_id(InitProducerId(name, 60_000), None)
    assert value_of(world.init(name)).code is NONE


@pytest.mark.parametrize("order", [1, -1])
def test_an_id_that_changed_its_group_has_one_owner_after_a_restart(order: int) -> None:
    """The shard of the id's former group may be loaded before or after the shard of its current
    group."""
    world = World(shards=SHARDS)
    own, *others = range(SHARDS)
    name = in_shard(own)
    for group_id in [in_shard(index) for index in others[::order]]:
        joined = value_of(
            world.transactions.init_producer_id(
                InitProducerId(name, 60_000), GroupAssignment(group_id, 1, frozenset({IN0}))
            )
        )
        assert joined.code is NONE
    world = world.crash()
    world.settle()
    world.producer(name)
    owners = [
        index
        for index, shard in world.transactions.runtime.shards()
        if (live := shard.get(name)) is not None
        and live.metadata.state is not TransactionState.DEAD
    ]
    assert owners == [own]


@pytest.mark.parametrize(
    ("generation", "is_current", "change", "code"),
    [
        (1, False, {}, ErrorCode.ILLEGAL_GENERATION),
        (2, False, {"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (2, True, {"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (2, True, {"producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        # The group was created again: its current generation is below one that the coordinator
        # knows.
        (1, True, {"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_refused_init_producer_id_fences_no_producer(
    new_world: NewWorld, generation: int, is_current: bool, change: dict[str, int], code: ErrorCode
) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere=True)
    other = member(world, "other", 2, IN1)
    produce(world, other, B0)
    plain = world.producer(name)
    world.produce(plain, A0, 0, transactional_id=name)
    before = [world.oracle(log).end_offset for log in world.transaction_logs]
    response = world.transactions.init_producer_id(
        replace(InitProducerId(name, 60_000), **change),
        GroupAssignment(GROUP, generation, frozenset({IN0})),
        is_current=is_current,
    )
    assert value_of(response).code is code
    assert [world.oracle(log).end_offset for log in world.transaction_logs] == before
    assert value_of(world.end(plain, True, transactional_id=name)).code is NONE
    assert value_of(end(world, other)).code is NONE


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
def test_a_refused_init_producer_id_without_a_group_leaves_the_id_in_its_group(
    new_world: NewWorld,
    timeout_ms: int,
) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere=True)
    joined = member(world, name, 1, IN0)
    produce(world, joined, A0)
    code = value_of(world.init(name, timeout_ms=timeout_ms)).code
    assert code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert value_of(end(world, joined)).code is NONE


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_id_that_leaves_its_group_is_fenced_in_the_group(
    new_world: NewWorld, elsewhere: bool, crashes: bool
) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere)
    joined = member(world, name, 1, IN0)
    produce(world, joined, A0)
    if crashes:
        world = world.crash()
        world.settle()
    plain = world.producer(name)
    assert outcomes(world, A0) == [False]
    for response in (add(world, joined, A0), end(world, joined)):
        assert value_of(response).code is FENCED
    world.produce(plain, A0, 0, b"plain", transactional_id=name)
    assert value_of(world.end(plain, True, transactional_id=name)).code is NONE
    assert world.read(A0) == [b"plain"]
    # The id has left the group, so a producer with the same input partitions does not fence it.
    again = world.crash()
    again.settle()
    produce(again, member(again, "other", 1, IN0), A1)
    assert value_of(again.init(name)).code is NONE


def test_an_operator_ends_the_open_transaction_at_its_coordinator(new_world: NewWorld) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere=True)
    joined = member(world, name, 1, IN0)
    produce(world, joined, A0)
    command = InitProducerId(name, 60_000, by_operator=True)
    for code in (ErrorCode.CONCURRENT_TRANSACTIONS, NONE):
        assert value_of(world.transactions.init_producer_id(command)).code is code
    assert outcomes(world, A0) == [False]
    assert value_of(end(world, joined)).code is FENCED
    # The id is still a member, so a producer of a newer generation fences it.
    again = member(world, name, 1, IN0)
    member(world, "newer", 2, IN1)
    assert value_of(add(world, again, A0)).code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_older_generation_stays_fenced_after_an_id_leaves_the_newer_one(
    new_world: NewWorld, elsewhere: bool
) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere)
    older = member(world, "older", 1, IN0)
    member(world, name, 2, IN1)
    world.producer(name)
    for _ in range(2):
        assert value_of(add(world, older, A0)).code is ErrorCode.ILLEGAL_GENERATION
        world = world.crash()
        world.settle()


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_id_is_refused_as_a_member_of_a_group_that_it_is_not_in(
    new_world: NewWorld, elsewhere: bool, has_begun: bool
) -> None:
    """The coordinator refuses the id even if the same shard coordinates both the group and the id,
    and so knows the id."""
    world = new_world(shards=SHARDS)
    name = named(elsewhere)
    plain = world.producer(name)
    if has_begun:
        world.produce(plain, A0, 0, b"plain", transactional_id=name)
    in_group = GroupedTransaction(name, *plain)
    for committed in (True, False):
        assert value_of(end(world, in_group, committed=committed)).code is UNKNOWN
    assert value_of(add(world, in_group, OFFSETS)).code is UNKNOWN
    append, _ = produce(world, in_group, B0)
    assert append.code is UNKNOWN
    assert value_of(end(world, in_group)).code is UNKNOWN
    assert outcomes(world, A0) == []
    world.produce(plain, A1, 0, b"plain", transactional_id=name)
    assert value_of(world.end(plain, True, transactional_id=name)).code is NONE
    assert (world.read(B0), world.read(A1)) == ([], [b"plain"])


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_id_in_a_group_is_refused_as_an_id_without_a_group(
    new_world: NewWorld, elsewhere: bool, generation: int
) -> None:
    world = new_world(shards=SHARDS)
    name = named(elsewhere)
    joined = member(world, name, 1, IN0)
    produce(world, joined, A0)
    member(world, "newest", generation, IN1)
    producer = joined[1:]
    # Only a shard that knows the producer's fence responds with PRODUCER_FENCED.
    refusal = FENCED if generation == 2 and not elsewhere else UNKNOWN
    assert value_of(world.add(producer, A1, transactional_id=name)).code is refusal
    for committed in (True, False):
        response = world.end(producer, committed, transactional_id=name)
        assert value_of(response).code is refusal
    code = NONE if generation == 1 else ErrorCode.ILLEGAL_GENERATION
    assert value_of(end(world, joined)).code is code


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_producer_gets_its_next_epoch_only_from_the_owner_of_its_id(
    new_world: NewWorld, elsewhere: bool, in_group: bool
) -> None:
    """A producer is refused outside the group that it has joined, and in a group that it has not
    joined. This holds also if the same shard coordinates the group and the id (KIP-360)."""
    world = new_world(shards=SHARDS)
    name = named(elsewhere)
    if in_group:
        joined = member(world, name, 1, IN0)
        produce(world, joined, A0)
        response = world.init(name, *joined[1:])
    else:
        plain = world.producer(name)
        world.produce(plain, A0, 0, transactional_id=name)
        response = world.transactions.init_producer_id(
            InitProducerId(name, 60_000, *plain), GroupAssignment(GROUP, 1, frozenset({IN0}))
        )
    assert value_of(response).code is FENCED
    assert outcomes(world, A0) == []
    ended = end(world, joined) if in_group else world.end(plain, True, transactional_id=name)
    assert value_of(ended).code is NONE


def test_a_join_is_refused_while_the_ids_own_coordinator_is_unavailable() -> None:
    world = World(shards=SHARDS)
    name = named(elsewhere=True)
    world.producer(name)
    world.transactions.resign(partition_for(name, SHARDS))
    with pytest.raises(Refused):
        join(world, name, 1, IN0)


# --- group commit


def test_all_records_of_a_group_commit_are_visible_before_its_response() -> None:
    world = World()
    commit = GroupCommit(committed=True)
    commit.run(world, stepper(world, None))
    assert [world.read(partition) for partition in DATA] == [[b"first"]] * 3
    assert world.offset(require_stable=True) == (NONE, 5)
    assert world.is_quiet
    world.check()


def test_the_prepare_records_of_a_group_commit_are_one_batch() -> None:
    world = World()
    GroupCommit(committed=True).run(world, stepper(world, None))
    (data,) = log_data(world.files, TXN_LOG)
    counts = [header.records_count for _, header in split_batches(data)]
    assert counts.count(4) == 1


def test_the_members_of_a_large_group_commit_are_finished_in_several_turns() -> None:
    world = World()
    parent = member(world, PARENT, 1)
    members = [member(world, f"{PARENT}/{n:03}", 1) for n in range(FINISHED_PER_TURN + 5)]
    for handed in members:
        produce(world, handed, A0)
    add(world, parent, B0, version=0)
    response = end(world, parent, *members)
    assert len(outcomes(world, A0)) == FINISHED_PER_TURN
    world.settle()
    assert value_of(response).code is NONE
    assert outcomes(world, A0) == [True] * len(members)


def test_a_group_commit_with_too_many_members_for_a_batch_leaves_everything_open() -> None:
    world = World()
    parent = member(world, PARENT, 1)
    long = "x" * 30_000
    members = [member(world, f"{PARENT}/{n:02}{long}", 1) for n in range(20)]
    for handed in members:
        add(world, handed, A0)
    add(world, parent, B0, version=0)
    assert value_of(end(world, parent, *members)).code is ErrorCode.MESSAGE_TOO_LARGE
    (_, shard) = world.transactions.owner(GROUP)
    assert len(shard.ongoing) == 21
    assert value_of(end(world, parent, *members[:5])).code is NONE


def points(flush_on_ack: bool, committed: bool) -> tuple[range, int]:
    """Return the indexes of the disk's changes during a commit, and the number of the commit's
    fsyncs."""
    world = World(flush_on_ack=flush_on_ack)
    begin = len(world.files.operations)
    ended = 0
    step = stepper(world, None)

    def count() -> bool:
        nonlocal ended
        ended += bool(world.files.pending)
        return step()

    GroupCommit(committed).run(world, count)
    return range(begin, len(world.files.operations)), ended


def crashes(flush_on_ack: bool, committed: bool) -> Iterator[tuple[World, GroupCommit]]:
    operations, syncs = points(flush_on_ack, committed)
    assert len(operations) > 20
    stops: list[tuple[int | None, int, int | None]] = [
        (operation, torn, None) for operation in operations for torn in (0, 40)
    ]
    stops += [(None, 0, sync) for sync in range(syncs)]
    for operation, torn, sync in stops:
        world = World(MemoryFiles(), flush_on_ack=flush_on_ack)
        if operation is not None:
            world.files.stop_before(operation, torn_bytes=torn)
        commit = GroupCommit(committed)
        with pytest.raises(Stopped):
            commit.run(world, stepper(world, sync))
        yield world, commit


def audit(world: World) -> bool:
    """Check that all transactions are committed or none, and that no reader waits. Return True for
    a commit."""
    committed = bool(world.read(A0))
    for partition in DATA:
        assert world.read(partition) == [b"first"] * committed
        found = world.partitions[partition]
        assert found.last_stable_offset == found.log_end_offset
        assert set(outcomes(world, partition)) <= {committed}
    assert world.offset(require_stable=True) == (NONE, 5 if committed else -1)
    world.check()
    return committed


def survive(world: World, commit: GroupCommit, retries: bool) -> None:
    """Check that a restarted broker completes the group commit as a whole or not at all. With
    `retries` the client sends its EndTxn again, otherwise the broker gets no request."""
    world.settle(10_000)
    if commit.asked and retries:
        assert commit.parent is not None
        assert commit.ask_again(world).code is NONE
        assert audit(world) is commit.committed
        fewer = end(world, commit.parent, *commit.members[1:], committed=commit.committed)
        assert value_of(fewer).code is ErrorCode.INVALID_TXN_STATE
        return
    world.timers.now_ms += 60_000
    world.transactions.abort_overdue(100)
    world.settle(10_000)
    committed = audit(world)
    if commit.ended is not None:
        assert committed is commit.committed
    states = {live.metadata.state for _, live in transactions(world)}
    assert not states & {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT}


def transactions(world: World) -> list[tuple[str, LiveTransaction]]:
    (_, shard) = world.transactions.owner(GROUP)
    return list(shard.transactions.items())


@pytest.mark.parametrize("retries", [True, False], ids=["retried", "given up"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_group_commit_is_atomic_over_a_kill_at_any_disk_operation(
    committed: bool, retries: bool
) -> None:
    for world, commit in crashes(False, committed):
        survive(world.crash(), commit, retries)


@pytest.mark.parametrize("retries", [True, False], ids=["retried", "given up"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_power_lost_at_any_change_of_the_disk_or_fsync_all_or_nothing_is_committed(
    committed: bool, retries: bool
) -> None:
    for seed, (world, commit) in enumerate(crashes(True, committed)):
        survive(world.crash(power_loss=Random(seed)), commit, retries)


def test_every_prefix_of_the_coordinators_log_decides_all_or_nothing() -> None:
    world = World()
    commit = GroupCommit(committed=True)
    commit.run(world, stepper(world, None))
    (data,) = log_data(world.files, TXN_LOG)
    directory = partition_directory(*TXN_LOG)
    (path,) = [p for p in world.files.nodes if p.startswith(directory) and p.endswith(".log")]
    all_ids = {PARENT, *(member.transactional_id for member in commit.members)}
    seen = set()
    batches = list(split_batches(data))
    sizes = {0, *(position + header.size for position, header in batches)}
    for position, header in batches:
        if header.records_count > 1:
            sizes.update(range(position, position + header.size))
    for size in sorted(sizes):
        files = world.files.after_kill()
        del files.nodes[path].data[size:]
        decided = {
            name
            for name, live in transactions(World(files, leader_epoch=1))
            if live.metadata.state in DECIDED
        }
        assert decided in (set(), all_ids)
        seen.add(bool(decided))
    assert seen == {True, False}
