"""A broker on the directory of a former single broker serves no transactional id before the missing
pointers are committed. The search for them takes several turns of the loop."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.deferred import Deferred, Unheard
from oncelog_server.slices import Steps
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.remote import missing_pointers
from oncelog_server.transaction.remote.missing_pointers import (
    BYTES_PER_BATCH,
    LOOKED_AT_PER_STEP,
    POINTERS_PER_BATCH,
)
from oncelog_server.transaction.shard import TransactionShard
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.remote.brokers import SHARDS, Brokers
from tests.server.transaction.remote.test_moves import (
    ID,
    IN0,
    LOADING,
    NONE,
    G,
    H,
    ask,
    code_of,
    init,
    name_in,
    pointer_of,
)
from tests.server.transaction.world import World, value_of

NAMES = [name_in(shard, "single") for shard in range(SHARDS)]


def written_by_a_single_broker(names: list[str], groups: tuple[str, ...] = (G, H)) -> MemoryFiles:
    """Return a disk with these ids in groups."""
    world = World(shards=SHARDS)
    for number, name in enumerate(names):
        group = GroupAssignment(groups[number % len(groups)], 1, frozenset({IN0}))
        response = world.transactions.init_producer_id(InitProducerId(name, 60_000), group)
        assert value_of(response).code is NONE
    return world.files.after_kill()


def first_start(files: MemoryFiles, steps_per_slice: int = 1) -> Brokers:
    return Brokers(
        size=1, files=files, epoch=2, next_producer_id=9_000, steps_per_slice=steps_per_slice
    )


def pointers_in(cluster: Brokers) -> dict[str, str]:
    return {
        name: pointer.group_id
        for _, shard in cluster.shards_in_service()
        for name in shard.pointers.ids()
        if (pointer := shard.pointers.get(name)) is not None
    }


def turns(cluster: Brokers) -> Iterator[int]:
    """Run the loop turn by turn. Yield the number of pointers after each turn."""
    while cluster.timers.soon:
        due, cluster.timers.soon = cluster.timers.soon, []
        for callback in due:
            callback()
        yield len(pointers_in(cluster))


def test_a_search_looks_at_a_part_of_the_ids_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    points_to = missing_pointers._points_to

    def watched(shard: TransactionShard, transactional_id: str, group_id: str) -> bool:
        looked.append(transactional_id)
        return points_to(shard, transactional_id, group_id)

    monkeypatch.setattr(missing_pointers, "_points_to", watched)
    names = [f"id-{number}" for number in range(5 * LOOKED_AT_PER_STEP)]
    cluster = first_start(written_by_a_single_broker(names))
    assert not pointers_in(cluster), "the load writes no pointer"
    assert code_of(ask(cluster, None, names[0])) is LOADING
    counts = [(0, 0), (len(looked), len(pointers_in(cluster)))]
    counts += [(len(looked), written) for written in turns(cluster)]
    assert counts[-1] == (len(names), len(names))
    for before, after in pairwise(counts):
        assert after[0] - before[0] <= 2 * LOOKED_AT_PER_STEP
        assert after[1] - before[1] <= 2 * POINTERS_PER_BATCH
    assert code_of(ask(cluster, None, names[0])) is NONE


def test_requests_meanwhile_begin_no_other_search() -> None:
    cluster = first_start(written_by_a_single_broker(NAMES))
    for _ in range(5):
        assert code_of(ask(cluster, None, NAMES[0])) is LOADING
    assert len(cluster.slices._rotation) == 1


def test_a_short_search_ends_within_the_first_request() -> None:
    cluster = first_start(written_by_a_single_broker(NAMES), steps_per_slice=100)
    assert code_of(ask(cluster, H, NAMES[0])) is not LOADING
    assert pointers_in(cluster).keys() == set(NAMES)


@pytest.mark.parametrize("shard", [0, 1, 4])
@pytest.mark.parametrize("after", [1, 3])
def test_a_shard_that_is_unloaded_half_way_stops_no_other(shard: int, after: int) -> None:
    cluster = first_start(written_by_a_single_broker(NAMES))
    ask(cluster, None, NAMES[0])
    steps = turns(cluster)
    for _ in range(after):
        next(steps, None)
    (broker,) = cluster.brokers.values()
    before = pointers_in(cluster)
    broker.close(cluster.transaction_logs[shard])
    other = NAMES[(shard + 1) % SHARDS]
    for _ in range(3):
        ask(cluster, None, other)
        cluster.settle()
    left = {
        name
        for name in NAMES
        if name in broker.transactions._grouped and cluster.shard_of(name).partition != shard
    }
    pointers = pointers_in(cluster)
    assert pointers.keys() == left
    for name in pointers.keys() - before.keys():
        assert cluster.shard_of(pointers[name]).partition != shard, "its members are unknown now"
    if other not in left or cluster.shard_of(pointers[other]).partition != shard:
        init(cluster, None, other)


@pytest.mark.parametrize("shard", [0, 1, 4])
@pytest.mark.parametrize("after", [1, 3])
def test_a_shard_in_a_newer_epoch_half_way_is_searched_again(shard: int, after: int) -> None:
    """The broker leads the partition again, and the records of its former shard may be lost."""
    cluster = first_start(written_by_a_single_broker(NAMES))
    ask(cluster, None, NAMES[0])
    steps = turns(cluster)
    for _ in range(after):
        next(steps, None)
    cluster.move(cluster.transaction_logs[shard], 1)
    for name in NAMES:
        init(cluster, None, name)
        assert cluster.owners(name) == [None]
    assert not pointers_in(cluster)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_shard_that_is_loaded_again_half_way_is_searched_again(shard: int) -> None:
    """The epoch may be the same, if the topic was deleted and created again."""
    files = written_by_a_single_broker(NAMES)
    for after in range(3 * SHARDS):
        cluster = first_start(files.after_kill(), steps_per_slice=2)
        ask(cluster, None, NAMES[0])
        steps = turns(cluster)
        for _ in range(after):
            next(steps, None)
        (broker,) = cluster.brokers.values()
        log = cluster.transaction_logs[shard]
        broker.close(log)
        broker.open(log, cluster.leaders[log].epoch)
        cluster.settle()
        init(cluster, None, name_in(shard, "another"))
        assert pointers_in(cluster).keys() == set(NAMES), after


def test_no_id_is_initialized_while_a_shard_could_not_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The id could be in a group of that shard, and nothing points to the group."""
    files = written_by_a_single_broker(NAMES, (G,))
    replay = TransactionShard.replay
    damaged = 1  # that of G

    def refuse(
        self: TransactionShard, record: CoordinatorRecord, *, offset: int, transaction: None
    ) -> None:
        if self.index == damaged:
            raise ValueError("not readable")
        replay(self, record, offset=offset, transaction=transaction)

    with monkeypatch.context() as patched:
        patched.setattr(TransactionShard, "replay", refuse)
        with pytest.raises(ValueError, match="not readable"):
            first_start(files)
        patched.setattr("tests.server.transaction.remote.brokers.Broker.open", _open_anyway)
        cluster = first_start(files, steps_per_slice=100)
    assert cluster.shard_of(G).partition == damaged
    for name in NAMES:
        expected = (LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert code_of(ask(cluster, None, name)) in expected
    assert not [name for name in NAMES if cluster.owners(name)]
    # The partition is readable again, and is led in a newer epoch.
    cluster.move(cluster.transaction_logs[damaged], 1)
    for name in NAMES:
        init(cluster, None, name)
        assert cluster.owners(name) == [None]


def _open_anyway(broker, name, epoch):  # type: ignore[no-untyped-def]
    """Open a partition as the replica manager does: a failed load is logged."""
    broker.leader_epoch = epoch
    broker.partitions[name] = partition = broker._open(name)
    try:
        if name.topic == "__transaction_state":
            broker.transactions.lead(partition)
    except ValueError:
        pass


def test_after_the_first_request_a_failed_load_stops_no_other_shard() -> None:
    """The pointers of all other shards are complete by then."""
    cluster = Brokers()
    init(cluster, G)
    broker = cluster.coordinator(ID)
    broker.transactions.refuse(4, "not readable")
    init(cluster, H)
    assert cluster.owners(ID) == [H]


def test_a_defect_in_a_search_is_logged_and_the_next_request_begins_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = first_start(written_by_a_single_broker(NAMES), steps_per_slice=100)

    def fail(*_: object) -> bool:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(missing_pointers, "_points_to", fail)
        with pytest.raises(RuntimeError, match="a defect"):
            ask(cluster, None, NAMES[0])
    init(cluster, None, NAMES[0])
    assert cluster.owners(NAMES[0]) == [None]


def test_a_batch_of_pointers_fits_into_a_record_batch() -> None:
    long = ["x" * 20_000 + name for name in map(str, range(30))]
    cluster = first_start(written_by_a_single_broker(long, ("g" * 20_000,)), steps_per_slice=1_000)
    sizes: list[int] = []
    runtime = cluster.brokers[1].transactions.runtime
    run = runtime.run

    def watched(index, decision):  # type: ignore[no-untyped-def]
        sizes.append(sum(len(record.key) + len(record.value or b"") for record in decision.records))
        return run(index, decision)

    runtime.run = watched  # type: ignore[method-assign]
    ask(cluster, None, ID)
    cluster.settle()
    assert pointers_in(cluster).keys() == set(long)
    assert max(sizes) < BYTES_PER_BATCH + 100_000


def test_an_older_pointer_is_replaced() -> None:
    cluster = Brokers(size=1)
    init(cluster, H)
    world = World(cluster.files.after_kill(), shards=SHARDS, leader_epoch=1)
    command = InitProducerId(ID, 60_000)
    group = GroupAssignment(G, 1, frozenset({IN0}))
    assert value_of(world.transactions.init_producer_id(command, group)).code is NONE
    again = first_start(world.files.after_kill(), steps_per_slice=100)
    assert pointer_of(again) == G


def test_an_older_pointer_stays_if_another_broker_has_a_shard() -> None:
    """The broker may have an outdated image. Then another one leads the group's shard, and the
    pointer is newer than the group's last record here."""
    cluster = Brokers(size=1)
    init(cluster, H)
    world = World(cluster.files.after_kill(), shards=SHARDS, leader_epoch=1)
    command = InitProducerId(ID, 60_000)
    group = GroupAssignment(G, 1, frozenset({IN0}))
    assert value_of(world.transactions.init_producer_id(command, group)).code is NONE
    again = first_start(world.files.after_kill(), steps_per_slice=100)
    (broker,) = again.brokers.values()
    idle = ({*range(SHARDS)} - {again.shard_of(name).partition for name in (G, H, ID)}).pop()
    broker.close(again.transaction_logs[idle])
    ask(again, None, name_in(again.shard_of(ID).partition, "another"))
    again.settle()
    assert pointer_of(again) == H


def test_the_search_begins_before_the_first_request() -> None:
    """A shard with ids without pointers may move before a request comes."""
    cluster = first_start(written_by_a_single_broker(NAMES))
    cluster.settle()
    assert pointers_in(cluster).keys() == set(NAMES)


def test_the_search_does_not_begin_while_a_shard_is_being_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier search would miss the ids of that shard, and the search of all shards would repeat
    its work."""
    cluster = first_start(written_by_a_single_broker(NAMES))
    runtime = cluster.brokers[1].transactions.runtime
    loads: list[Steps[None]] = []
    with monkeypatch.context() as patched:
        patched.setattr(runtime, "_work", loads.append)
        cluster.move(cluster.transaction_logs[1], 1)
    assert runtime.is_loading
    cluster.settle()
    assert not pointers_in(cluster)
    (load,) = loads
    cluster.slices.run(load)
    cluster.settle()
    assert pointers_in(cluster).keys() == set(NAMES)


def test_a_search_keeps_no_shard_in_memory() -> None:
    cluster = first_start(written_by_a_single_broker(NAMES))
    cluster.settle()
    init(cluster, None, NAMES[0])
    (broker,) = cluster.brokers.values()
    log = cluster.shard_of(NAMES[0])
    shard = weakref.ref(broker.transactions.runtime.shard(log.partition))
    broker.close(log)
    gc.collect()
    assert shard() is None


def test_a_defect_in_the_commit_of_pointers_is_logged_and_another_search_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[Exception] = []
    monkeypatch.setattr(Unheard, "take", logged.append)
    cluster = first_start(written_by_a_single_broker(NAMES), steps_per_slice=100)
    runtime = cluster.brokers[1].transactions.runtime
    pending: list[Deferred[bool]] = []

    def run(index: int, decision: object) -> Deferred[bool]:
        pending.append(Deferred())
        return pending[-1]

    with monkeypatch.context() as patched:
        patched.setattr(runtime, "run", run)
        assert code_of(ask(cluster, None, NAMES[0])) is LOADING
    assert pending
    for response in pending:
        response.abandon(RuntimeError("a defect"))
    assert list(map(str, logged)) == ["a defect"] * len(pending)
    init(cluster, None, NAMES[0])
    assert cluster.owners(NAMES[0]) == [None]
