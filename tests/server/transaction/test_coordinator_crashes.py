"""The crash matrix of one broker (C0-C14, C-A to C-F). The process ends at every change of the disk
and at every fsync of one transaction. The next process and the client's retry complete the
transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.server.storage.memory_files import MemoryFiles, Stopped
from tests.server.transaction.world import A0, A1, B0, DATA, OFFSETS, TXN_LOG, World, value_of

RETRIED = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


@dataclass
class Client:
    """A client with one transaction over three partitions and the group. The fields also show
    what the client had sent and received when the broker ended."""

    committed: bool
    bumps_epoch: bool
    producer: tuple[int, int] | None = None
    acknowledged: int = 0
    asked_to_end: bool = False
    ended: TransactionResult | None = None

    def run(self, world: World, until: Callable[[], bool]) -> None:
        """Run the transaction. `until` advances the disk and time, and returns False if no work is
        left."""

        def wait(response: object) -> None:
            while isinstance(response, Deferred) and not response.done:
                assert until()

        started = world.init()
        wait(started)
        self.producer = (value_of(started).producer_id, value_of(started).producer_epoch)
        for partition in DATA:
            if not self.bumps_epoch:
                wait(world.add(self.producer, partition, version=0))
            append, later = world.produce(
                self.producer, partition, 0, b"first", adds_partitions=self.bumps_epoch
            )
            wait(later)
            assert append.code is ErrorCode.NONE
            self.acknowledged += 1
        wait(world.add(self.producer, OFFSETS))
        wait(world.commit_offset(self.producer, 5))
        self.asked_to_end = True
        response = world.end(self.producer, self.committed, bumps_epoch=self.bumps_epoch)
        wait(response)
        self.ended = value_of(response)
        assert self.ended.code is ErrorCode.NONE
        while until():
            pass

    def finish(self, world: World) -> bool:
        """Act as the client at the next process: wait, or retry EndTxn. Return True if its
        transaction is committed."""
        assert self.producer is not None
        if self.ended is not None:
            world.settle(10_000)
            return self.committed
        if not self.asked_to_end:
            return False
        for _ in range(20):
            response = world.end(self.producer, self.committed, bumps_epoch=self.bumps_epoch)
            world.settle(500)
            result = value_of(response)
            if result.code not in RETRIED:
                break
        assert result.code is ErrorCode.NONE
        return self.committed


def stepper(world: World, syncs: int | None) -> Callable[[], bool]:
    """Return a function that ends one fsync, or else runs the first timer that is due within 5 s.
    It stops the process after `syncs` fsyncs."""
    left = [syncs]

    def step() -> bool:
        if world.files.pending:
            if left[0] is not None:
                if left[0] == 0:
                    raise Stopped("before an fsync has ended")
                left[0] -= 1
            world.files.pending.pop(0)()
            return True
        world.timers.run_soon()
        return bool(world.files.pending) or world.timers.run_next(world.now() + 5_000)

    return step


def take_over(world: World, client: Client) -> None:
    """Check that the next instance of the id gets a working producer."""
    for _ in range(20):
        response = world.init()
        world.settle(500)
        result = value_of(response)
        if result.code is ErrorCode.NONE:
            break
    assert result.code is ErrorCode.NONE
    producer = (result.producer_id, result.producer_epoch)
    assert producer != client.producer
    for partition in DATA:
        append, _ = world.produce(producer, partition, 0, b"second")
        world.settle()
        assert append.code is ErrorCode.NONE
    response = world.end(producer, True)
    world.settle()
    assert value_of(response).code is ErrorCode.NONE


def audit(world: World, client: Client, committed: bool) -> None:
    """Check that all partitions have the same outcome, that no acknowledged record is lost, and
    that no reader is stuck."""
    assert client.producer is not None
    for number, partition in enumerate(DATA):
        rows = [row for row in world.oracle(partition).completed if row[0] == client.producer[0]]
        own = rows[:-1]  # the last row is the transaction of `take_over`
        if number < client.acknowledged:
            assert [row[3] for row in own] == [committed]
        assert {row[3] for row in own} <= {committed}
        assert world.read(partition) == [b"first"] * committed + [b"second"]
        found = world.partitions[partition]
        assert found.last_stable_offset == found.high_watermark == found.log_end_offset
    assert world.offset(require_stable=True) == (ErrorCode.NONE, 5 if committed else -1)
    live = world.transactions.owner("t")[1].get("t")
    assert live is not None
    assert live.metadata.state is State.COMPLETE_COMMIT
    world.check()


def survive(world: World, client: Client) -> None:
    if client.producer is None:
        take_over(world, client)
        return
    committed = client.finish(world)
    take_over(world, client)
    audit(world, client, committed)


def points(flush_on_ack: bool, committed: bool, bumps_epoch: bool) -> tuple[range, int]:
    """Return the range of the disk's changes during the transaction, and the number of its
    fsyncs."""
    world = World(flush_on_ack=flush_on_ack)
    begin = len(world.files.operations)
    ended = 0
    step = stepper(world, None)

    def count() -> bool:
        nonlocal ended
        ended += bool(world.files.pending)
        return step()

    Client(committed, bumps_epoch).run(world, count)
    return range(begin, len(world.files.operations)), ended


def crashes(
    flush_on_ack: bool, committed: bool, bumps_epoch: bool
) -> Iterator[tuple[World, Client, str]]:
    """Yield a broker, its client and the name of the point at which the broker was stopped, for
    each point in turn."""
    operations, syncs = points(flush_on_ack, committed, bumps_epoch)
    assert len(operations) > 10
    stops: list[tuple[int | None, int, int | None]] = [
        (operation, torn, None) for operation in operations for torn in (0, 40)
    ]
    stops += [(None, 0, sync) for sync in range(syncs)]
    for operation, torn, sync in stops:
        world = World(MemoryFiles(), flush_on_ack=flush_on_ack)
        if operation is not None:
            world.files.stop_before(operation, torn_bytes=torn)
        client = Client(committed, bumps_epoch)
        with pytest.raises(Stopped):
            client.run(world, stepper(world, sync))
        yield world, client, f"operation {operation} torn {torn} sync {sync}"


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_transaction_is_atomic_over_a_kill_at_any_disk_operation(
    committed: bool, bumps_epoch: bool
) -> None:
    for world, client, _ in crashes(False, committed, bumps_epoch):
        survive(world.crash(), client)


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_transaction_is_atomic_over_a_power_loss_at_any_disk_operation(
    committed: bool, bumps_epoch: bool
) -> None:
    for seed, (world, client, _) in enumerate(crashes(True, committed, bumps_epoch)):
        survive(world.crash(power_loss=Random(seed)), client)


def test_CF_a_crash_loop_between_markers_leaves_one_effective_marker_per_partition() -> None:
    world = World()
    client = Client(True, True)
    world.files.fail_append(match="a-1/0")
    producer = world.producer()
    for partition in (A0, B0):
        world.produce(producer, partition, 0, b"first")
    world.add(producer, A1)
    client.producer, client.asked_to_end = producer, True
    world.end(producer, True)
    for _ in range(5):
        world = world.crash()
        world.files.stop_before(len(world.files.operations) + 1)
        with pytest.raises(Stopped):
            world.settle(1_000)
    world = world.crash()
    world.settle(10_000)
    for partition in (A0, B0):
        assert [row[3] for row in world.oracle(partition).completed] == [True]
        assert world.read(partition) == [b"first"]
        assert world.partitions[partition]._log.aborted_transactions(0, 100) == []
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE


class NothingIsLeft(Random):
    """Random numbers with which a power loss leaves only synced data."""

    def randint(self, a: int, b: int) -> int:
        return a

    def random(self) -> float:
        return 1.0


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_CD_a_complete_record_removed_by_a_power_loss_is_written_again(
    committed: bool, bumps_epoch: bool
) -> None:
    """All markers are on the disk. COMPLETE is written but not synced, so the power loss removes
    it. The coordinator sends the markers again, and the epoch continues from the epoch in
    PREPARE."""
    world = World(flush_on_ack=True)
    client = Client(committed, bumps_epoch)
    step = stepper(world, None)
    ends: list[int] = []

    def until_complete_is_written() -> bool:
        if client.asked_to_end:
            ends.append(world.partitions[TXN_LOG].log_end_offset)
            if ends[-1] == ends[0] + 1:  # ends[0] is the log end after PREPARE
                raise Stopped("COMPLETE is written")
        return step()

    with pytest.raises(Stopped):
        client.run(world, until_complete_is_written)
    marked = {name: world.partitions[name].log_end_offset for name in DATA}
    assert set(marked.values()) == {2}
    world = world.crash(power_loss=NothingIsLeft())
    assert world.partitions[TXN_LOG].log_end_offset == ends[0]
    assert {name: world.partitions[name].log_end_offset for name in DATA} == marked
    assert client.finish(world) == committed
    assert {world.partitions[name].log_end_offset for name in DATA} == {3}
    assert client.producer is not None
    again = value_of(world.end(client.producer, committed, bumps_epoch=bumps_epoch))
    epoch = client.producer[1] + bumps_epoch
    if bumps_epoch:
        assert (again.producer_id, again.producer_epoch) == (client.producer[0], epoch)
    assert world.producer() == (client.producer[0], epoch + 1)
    take_over(world, client)
    audit(world, client, committed)


def test_before_the_shard_is_loaded_requests_for_its_ids_are_refused() -> None:
    world = World()
    world.producer()
    files = world.files.after_kill()
    loading = World(files, leader_epoch=1, leads=False)
    with pytest.raises(Exception, match="NOT_COORDINATOR"):
        loading.init()
    loading.lead()
    assert value_of(loading.init()).code is ErrorCode.NONE


def test_CI_a_coordinator_that_regains_leadership_sends_markers_with_the_new_epoch() -> None:
    world = World()
    producer = world.producer()
    world.produce(producer, A0, 0)
    world.scene.leaderless.add(A0)
    world.end(producer, True)
    partition = world.partitions[TXN_LOG]
    partition.become_follower(1, 1)
    world.transactions.resign(0)
    partition.become_leader(0, 2, (0,), (0,))
    world.transactions.lead(partition)
    world.scene.leaderless.clear()
    world.settle(10_000)
    entry = world.partitions[A0]._log.producers.entry(producer[0])
    assert entry is not None
    assert entry.coordinator_epoch == 2
    assert [row[3] for row in world.oracle(A0).completed] == [True]
