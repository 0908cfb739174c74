"""A coordinator rebuilds a shard from its log in slices, completely or not at all."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.coordinator import loading
from oncelog_server.log.config import LogConfig
from oncelog_server.log.results import Origin
from oncelog_server.refusal import Refused
from oncelog_server.slices import Slices, at_its_end
from oncelog_server.storage.layout import TXN_INDEX_CHECKPOINT
from tests.server.log.driver import DIRECTORY, Driver
from tests.server.partition.partitions import held_by
from tests.server.transaction.world import A0, TXN_LOG, World, value_of


def used(transactions: int = 30) -> World:
    world = World()
    for number in range(transactions):
        producer = world.producer(f"t{number % 7}")
        world.add(producer, A0, transactional_id=f"t{number % 7}")
        if number % 3:
            value_of(world.end(producer, True, transactional_id=f"t{number % 7}"))
    return world


def states(world: World) -> dict[str, object]:
    ((_, shard),) = world.transactions.runtime.shards()
    return {name: live.metadata for name, live in shard.transactions.items()}


@pytest.mark.parametrize("piece", [1, 77, 400, 1_000, 4_096])
def test_a_log_is_loaded_in_pieces_of_any_size(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = used()
    monkeypatch.setattr(loading, "LOAD_BYTES", piece)
    assert states(world.crash()) == states(world)


@pytest.mark.parametrize(("knows_sizes", "end_offset"), [(True, 1), (False, 2)])
def test_a_log_with_an_empty_segment_at_its_end_is_loaded(
    knows_sizes: bool, end_offset: int
) -> None:
    """A power failure removed an unacknowledged record from the end of the first segment, and left
    an empty second segment. So offsets are missing between the segments. If the checkpoint has the
    former size of the first segment, the log ends where that segment ends now. Without the size,
    compaction may have removed the offsets, so the empty segment stays."""
    driver = Driver(LogConfig(cleanup_policy=frozenset({"compact"})))
    driver.plain()
    kept = driver.log.size_bytes
    driver.plain()
    driver.log.roll(driver.now_ms)
    del driver.files.nodes[driver.log.segments[0].log.path].data[kept:]
    if not knows_sizes:
        del driver.files.nodes[f"{DIRECTORY}/{TXN_INDEX_CHECKPOINT}"]
    assert driver.kill().log_end_offset == end_offset
    met: list[int] = []

    class Replayed:
        def replay(self, record: object, *, offset: int, transaction: object) -> None:
            met.append(offset)

        def replay_marker(self, *_: object, committed: bool) -> None:
            raise AssertionError("there is no marker")

    assert at_its_end(loading.replay_log(held_by(driver.log), Replayed())) == 1
    assert met == [0]


def broken(world: World) -> World:
    """Return the broker after a crash. It serves the partition of the transaction log, and has not
    loaded it yet."""
    return World(world.files.after_kill(), leader_epoch=1, leads=False)


def refused(world: World) -> None:
    with pytest.raises(ValueError, match=r"offset|version"):
        world.transactions.lead(world.partitions[TXN_LOG])
    with pytest.raises(Refused) as error:
        world.init("t1")
    assert error.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_S14_a_shard_with_an_unreadable_log_is_refused_until_it_can_be_read() -> None:
    world = broken(used())
    world.files.fail_reads("__transaction_state-0/")
    refused(world)
    world.files.fail_reads("")
    world.partitions[TXN_LOG].become_leader(0, 2, (0,), (0,))
    world.transactions.lead(world.partitions[TXN_LOG])
    assert states(world)


def test_S14_a_refused_shard_gets_not_coordinator_once_another_broker_leads_it() -> None:
    world = broken(used())
    world.files.fail_reads("__transaction_state-0/")
    refused(world)
    world.transactions.resign(0)
    with pytest.raises(Refused) as error:
        world.init("t1")
    assert error.value.code is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("key", [b"\x00\x00\x00\x02t1", None], ids=["no value", "no key"])
def test_S14_a_record_that_cannot_be_read_refuses_the_whole_shard(key: bytes | None) -> None:
    world = broken(used())
    world.partitions[TXN_LOG].append(
        build_batch([NewRecord(0, key, b"\x00\x07")]), now_ms=0, origin=Origin.COORDINATOR
    )
    refused(world)


STEPS = 5


def loading_world(world: World) -> World:
    """Return the broker after a crash. It loads shards in slices of a few records."""
    after = broken(world)
    slices = Slices(after.timers, after.now, steps_per_slice=STEPS)
    after.transactions.runtime._work = slices.run
    return after


def code_of(world: World) -> ErrorCode:
    with pytest.raises(Refused) as error:
        world.transactions.owner("t1")
    return error.value.code


def test_a_shard_is_loaded_in_slices_and_refuses_requests_until_it_is_complete() -> None:
    before = used()
    world = loading_world(before)
    log = world.partitions[TXN_LOG]._log
    world.transactions.lead(world.partitions[TXN_LOG])
    turns = 0
    while world.transactions.runtime.is_loading:
        assert world.transactions.views.is_loading
        assert code_of(world) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not list(world.transactions.runtime.shards()), (
            "no shard is served before it is complete"
        )
        world.timers.soon.pop(0)()
        turns += 1
    assert turns >= log.log_end_offset // STEPS
    assert states(world) == states(before)


def test_a_shard_that_loads_is_not_loaded_again_in_the_same_epoch() -> None:
    world = loading_world(used())
    partition = world.partitions[TXN_LOG]
    assert world.transactions.lead(partition) is not None
    assert world.transactions.lead(partition) is None
    world.timers.run_soon()
    assert world.transactions.runtime.load_times.count == 1


def test_a_transactional_id_is_found_only_after_all_shards_are_loaded() -> None:
    """A transactional id may belong to a group, and so to another shard. The coordinator knows the
    shard of an id only after all shards have loaded."""
    world = loading_world(used())
    world.transactions.lead(world.partitions[TXN_LOG])
    assert code_of(world) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.timers.run_soon()
    assert world.transactions.owner("t1")


def test_a_load_of_an_earlier_leader_epoch_leaves_nothing() -> None:
    before = used()
    world = loading_world(before)
    partition = world.partitions[TXN_LOG]
    world.transactions.lead(partition)
    partition.become_leader(0, 2, (0,), (0,))
    world.transactions.lead(partition)
    world.timers.run_soon()
    assert states(world) == states(before)
    (loaded,) = world.transactions.runtime._shards.values()
    assert loaded.epoch == 2


def test_a_load_is_abandoned_when_another_broker_leads() -> None:
    world = loading_world(used())
    world.transactions.lead(world.partitions[TXN_LOG])
    world.transactions.resign(0)
    assert code_of(world) is ErrorCode.NOT_COORDINATOR
    world.timers.run_soon()
    assert not list(world.transactions.runtime.shards())


def test_S14_a_load_that_fails_in_a_later_slice_refuses_the_shard() -> None:
    world = loading_world(used())
    partition = world.partitions[TXN_LOG]
    partition.append(
        build_batch([NewRecord(0, None, b"\x00\x07")]), now_ms=0, origin=Origin.COORDINATOR
    )
    led = world.transactions.lead(partition)
    assert led is not None
    failures: list[Exception | None] = []
    led.on_abandon(lambda: failures.append(led.failure))
    world.timers.run_soon()
    assert code_of(world) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(failures[0], ValueError)


def test_a_shard_of_a_suspended_partition_answers_nothing_from_memory() -> None:
    world = used()
    runtime = world.transactions.runtime
    (index, shard), *_ = runtime.shards()
    led = runtime.partition(index)
    led.suspend()
    with pytest.raises(Refused) as refused:
        runtime.shard(index)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    led.resume()
    assert runtime.shard(index) is shard
