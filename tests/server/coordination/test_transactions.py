"""The whole local path of a transaction in memory: coordinator, logs, markers, group offsets."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordination.marker_delivery import MarkerSettled
from oncelog_server.coordination.transactions import RETRY_MAX_MS
from oncelog_server.deferred import Deferred
from oncelog_server.partition.partition import Isolation
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.states import State
from tests.server.coordination.world import A0, A1, B0, OFFSETS, TXN_LOG, World, value_of

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
VERSIONS = pytest.mark.parametrize("bumps_epoch", [False, True], ids=["V1", "V2"])
OUTCOMES = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])


class Remote:
    """Another broker: keeps what it is sent until the test lets it answer."""

    def __init__(self) -> None:
        self.sent: list[tuple[MarkerWork, list[TopicPartition], MarkerSettled]] = []

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        self.sent.append((work, partitions, settled))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        _, partitions, settled = self.sent.pop(0)
        for partition in partitions:
            settled(partition, code)


def state(world: World, transactional_id: str = "t") -> State:
    live = world.transactions.owner(transactional_id)[1].get(transactional_id)
    assert live is not None
    return live.metadata.state


def outcomes(world: World, partition: TopicPartition) -> list[bool]:
    """COMMIT or ABORT of every transaction that had records there, in the order of markers."""
    return [committed for _, _, _, committed in world.oracle(partition).completed]


def opened(world: World, *partitions: TopicPartition, version: int = 2) -> tuple[int, int]:
    """A producer with a record in each of these partitions and an offset in the group."""
    producer = world.producer()
    for partition in partitions:
        world.add(producer, partition, version=version)
        append, _ = world.produce(producer, partition, 0, adds_partitions=False)
        assert append.code is ErrorCode.NONE
    return producer


# --- one turn


@VERSIONS
@OUTCOMES
def test_end_txn_is_answered_after_complete_within_its_own_call(
    committed: bool, bumps_epoch: bool
) -> None:
    world = World()
    producer = opened(world, A0, A1, B0)
    result = value_of(world.end(producer, committed, bumps_epoch=bumps_epoch))
    assert result.code is ErrorCode.NONE
    assert state(world) is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    assert world.is_quiet
    for partition in (A0, A1, B0):
        assert outcomes(world, partition) == [committed]
        assert world.read(partition) == ([b"v"] if committed else [])
    world.check()


@VERSIONS
def test_back_to_back_transactions_never_meet_concurrent_transactions(bumps_epoch: bool) -> None:
    world = World()
    producer = world.producer()
    sequence = 0
    for number in range(20):
        append, later = world.produce(producer, A0, sequence, b"%d" % number)
        assert (append.code, later) == (ErrorCode.NONE, None)
        result = value_of(world.end(producer, number % 3 != 0, bumps_epoch=bumps_epoch))
        assert result.code is ErrorCode.NONE
        sequence += 1
        if bumps_epoch:
            assert (result.producer_id, result.producer_epoch) == (producer[0], producer[1] + 1)
            producer, sequence = (result.producer_id, result.producer_epoch), 0
    assert world.read(A0) == [b"%d" % number for number in range(20) if number % 3]
    world.check()


def test_a_marker_carries_the_epoch_of_the_next_transaction_and_the_coordinators() -> None:
    world = World(leader_epoch=7)
    producer_id, epoch = opened(world, A0)
    value_of(world.end((producer_id, epoch), True))
    entry = world.partitions[A0].log.producers.entry(producer_id)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch) == (epoch + 1, 7)


def test_L7_a_transaction_without_data_ends_with_a_marker_and_no_more() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, A0)
    assert value_of(world.end(producer, False)).code is ErrorCode.NONE
    partition = world.partitions[A0]
    assert (partition.log.log_end_offset, partition.last_stable_offset) == (1, 1)
    assert partition.log.aborted_transactions(0, 10) == []


# --- oncelog.flush.on.ack


def test_no_answer_leaves_before_what_it_promises_is_on_disk() -> None:
    world = World(flush_on_ack=True)
    first = world.init()
    assert isinstance(first, Deferred)
    assert not first.done
    world.settle()
    producer = (first.value.producer_id, first.value.producer_epoch)

    append, later = world.produce(producer, A0, 0)
    assert later is not None
    assert (world.partitions[A0].log.log_end_offset, later.done) == (0, False)  # the add first
    world.files.settle()
    assert later.done
    assert append.code is ErrorCode.NONE

    answer = world.end(producer, True)
    assert isinstance(answer, Deferred)
    markers = world.partitions[A0].log.log_end_offset
    assert (answer.done, markers) == (False, 1), "M9, M10: PREPARE is not on disk yet"
    world.settle()
    assert value_of(answer).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT
    for name, partition in world.partitions.items():
        assert partition.high_watermark == partition.log.log_end_offset, name


def test_while_a_decision_is_on_its_way_to_the_disk_the_id_is_busy() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    first = world.add(producer, A0)
    others = (
        world.add(producer, A1),
        world.init(),
        world.end(producer, True),
        world.end(producer, True, bumps_epoch=False),
    )
    for answer in others:
        assert value_of(answer).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.settle()
    assert value_of(first).code is ErrorCode.NONE
    assert value_of(world.add(producer, A0)).code is ErrorCode.NONE  # durable: nothing to wait for


def test_T3_the_scan_passes_over_a_transaction_that_is_being_decided() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer(timeout_ms=1_000)
    world.produce(producer, A0, 0)
    world.settle()
    answer = world.end(producer, True)
    world.timers.now_ms += 5_000
    assert world.transactions.abort_overdue(10) == []
    world.settle()
    assert value_of(answer).code is ErrorCode.NONE
    assert outcomes(world, A0) == [True]


def test_S16_a_failed_fsync_acknowledges_nothing() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.files.fail_sync()
    answer = world.add(producer, A0)
    world.settle()
    assert value_of(answer).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.partitions[TXN_LOG].offline is not None
    assert value_of(world.add(producer, A0)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- markers that fail


def test_CJ_a_partition_that_fails_holds_back_no_other_and_is_tried_again() -> None:
    world = World()
    producer = opened(world, A0, A1, B0)
    world.files.fail_append(match="a-1/")
    answer = world.end(producer, True)
    assert value_of(answer).code is ErrorCode.NONE  # decided: nothing can change it
    assert state(world) is State.PREPARE_COMMIT
    assert (outcomes(world, A0), outcomes(world, A1), outcomes(world, B0)) == ([True], [], [True])
    assert value_of(world.init()).code is ErrorCode.CONCURRENT_TRANSACTIONS  # Z7
    world.check()
    world.settle(1_000)
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A1) == [True]
    assert [world.oracle(one).end_offset for one in (A0, A1, B0)] == [2, 2, 2]  # each one marker


def test_T7_a_leader_that_is_away_is_asked_with_back_off_until_it_is_back() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.leaderless.add(A1)
    value_of(world.end(producer, False))
    asked = 0
    while world.now() < 601_000:
        assert world.timers.run_next(10**9)
        asked += 1
    assert asked <= 600_000 / RETRY_MAX_MS + 10
    assert state(world) is State.PREPARE_ABORT
    assert value_of(world.init()).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.scene.leaderless.clear()
    world.settle(RETRY_MAX_MS)
    assert state(world) is State.COMPLETE_ABORT
    assert outcomes(world, A1) == [False]


def test_CK_the_marker_of_a_partition_that_is_gone_is_dropped_and_all_completes() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.gone.add(A1)
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A0) == [True]


def test_N11_a_partition_that_is_only_unknown_for_now_keeps_its_marker() -> None:
    world = World()
    producer = opened(world, A0, A1)
    hidden = world.partitions.pop(A1)
    value_of(world.end(producer, True))
    world.settle(10_000)
    assert state(world) is State.PREPARE_COMMIT
    world.partitions[A1] = hidden
    world.settle(10_000)
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A1) == [True]


def test_CJ_an_epoch_that_is_higher_already_needs_no_marker_any_more() -> None:
    world = World()
    producer = opened(world, A0, A1)
    partition = world.partitions[A1]
    partition.append_marker(
        producer[0], 9, committed=True, coordinator_epoch=0, transaction_version=2, now_ms=0
    )
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT


def test_Z13_Z14_a_coordinator_that_has_been_replaced_stops_and_promises_nothing() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.partitions[A1].append_marker(
        producer[0], 0, committed=False, coordinator_epoch=5, transaction_version=0, now_ms=0
    )
    end = world.partitions[A1].log.log_end_offset
    answer = world.end(producer, True)
    assert value_of(answer).code is ErrorCode.NOT_COORDINATOR
    world.settle(60_000)
    assert world.partitions[A1].log.log_end_offset == end
    assert world.is_quiet


def test_a_marker_refused_with_a_code_nobody_expects_is_tried_again() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    value_of(world.end(producer, True))
    remote.answer(ErrorCode.POLICY_VIOLATION)
    world.settle(1_000)
    remote.answer()
    assert state(world) is State.COMPLETE_COMMIT


def test_a_complete_record_that_cannot_be_written_is_written_later() -> None:
    world = World()
    producer = opened(world, A0)
    world.files.fail_append(2, match="__transaction_state")
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert state(world) is State.PREPARE_COMMIT
    assert world.oracle(A0).end_offset == 2
    world.settle(1_000)
    assert state(world) is State.COMPLETE_COMMIT
    assert world.oracle(A0).end_offset == 2


def test_I17_a_complete_record_whose_fsync_fails_leaves_nobody_waiting() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.produce(producer, A0, 0)
    world.settle()
    answer = world.end(producer, True)
    while world.oracle(TXN_LOG).end_offset < 4:  # init, add, PREPARE, COMPLETE
        world.files.pending.pop(0)()
    world.files.fail_sync()
    world.settle()
    assert value_of(answer).code is ErrorCode.NONE  # PREPARE is on disk
    assert world.partitions[TXN_LOG].offline is not None


# --- another broker leads


def test_with_a_leader_elsewhere_the_answer_leaves_after_prepare() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    result = value_of(world.end(producer, True))
    assert (result.code, result.producer_epoch) == (ErrorCode.NONE, producer[1] + 1)
    assert state(world) is State.PREPARE_COMMIT
    next_one = (result.producer_id, result.producer_epoch)
    assert value_of(world.add(next_one, A0)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [partitions for _, partitions, _ in remote.sent] == [[A1]]
    remote.answer()
    assert state(world) is State.COMPLETE_COMMIT
    assert value_of(world.add(next_one, A0)).code is ErrorCode.NONE


def test_a_leader_elsewhere_that_breaks_off_is_asked_again() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    value_of(world.end(producer, False))
    remote.answer(ErrorCode.NETWORK_EXCEPTION)
    assert not remote.sent
    world.settle(1_000)
    (work, _, _) = remote.sent[0]
    assert (work.committed, work.partitions) == (False, (A1,))
    remote.answer()
    assert state(world) is State.COMPLETE_ABORT


def test_an_answer_that_comes_after_the_shard_was_lost_changes_nothing() -> None:
    world = World()
    producer = opened(world, A0)
    world.scene.remote[A0] = remote = Remote()
    value_of(world.end(producer, True))
    world.transactions.resign(0)
    remote.answer()
    with pytest.raises(Refused):
        world.transactions.owner("t")
    assert world.oracle(TXN_LOG).end_offset == 3


# --- fencing


def test_Z1_Z2_Z4_a_newer_producer_ends_what_the_older_one_left_open() -> None:
    world = World()
    old = opened(world, A0)
    assert value_of(world.init()).code is ErrorCode.CONCURRENT_TRANSACTIONS
    result = value_of(world.init())
    assert (result.producer_id, result.producer_epoch) == (old[0], old[1] + 2)
    end = world.oracle(A0).end_offset, world.oracle(TXN_LOG).end_offset
    assert value_of(world.end(old, True)).code is ErrorCode.PRODUCER_FENCED
    assert value_of(world.end(old, True, bumps_epoch=False)).code is ErrorCode.PRODUCER_FENCED
    assert value_of(world.add(old, A1)).code is ErrorCode.PRODUCER_FENCED
    append, _ = world.produce(old, A0, 1, adds_partitions=False)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (world.oracle(A0).end_offset, world.oracle(TXN_LOG).end_offset) == end
    assert world.read(A0) == []
    world.check()


def test_Z3_a_zombie_is_refused_on_a_partition_nobody_has_touched() -> None:
    world = World()
    old = opened(world, A0)
    world.init()
    append, _ = world.produce(old, B0, 0)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.partitions[B0].log.log_end_offset == 0


def test_Z5_offsets_of_a_zombie_change_nothing() -> None:
    world = World()
    old = world.producer()
    world.add(old, OFFSETS)
    world.commit_offset(old, 3)
    world.init()
    world.commit_offset(old, 9)
    assert world.offset(require_stable=True) == (ErrorCode.NONE, -1)
    assert world.partitions[OFFSETS].last_stable_offset == world.oracle(OFFSETS).end_offset


def test_Z6_init_producer_id_three_times_while_the_abort_takes_time() -> None:
    world = World(flush_on_ack=True)
    old = world.producer()
    world.produce(old, A0, 0)
    world.settle()
    answers = [world.init() for _ in range(3)]
    world.settle()
    assert {value_of(one).code for one in answers} == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert world.producer() == (old[0], old[1] + 2)


# --- time-outs


def test_T1_a_silent_producers_transaction_is_aborted_at_its_time_out() -> None:
    world = World()
    producer = world.producer(timeout_ms=5_000)
    world.produce(producer, A0, 0)
    world.settle(4_999)
    assert world.transactions.abort_overdue(10) == []
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    assert state(world) is State.COMPLETE_ABORT
    assert world.read(A0) == []
    assert world.partitions[A0].last_stable_offset == world.partitions[A0].high_watermark
    append, _ = world.produce(producer, A0, 1)
    assert append.code is ErrorCode.INVALID_PRODUCER_EPOCH
    late = value_of(world.end(producer, True))
    assert late.code is ErrorCode.PRODUCER_FENCED  # T4
    again = value_of(world.init(producer_id=producer[0], producer_epoch=producer[1]))
    assert (again.code, again.producer_epoch) == (ErrorCode.NONE, producer[1] + 1)  # KIP-588


def test_T6_the_time_out_runs_from_the_first_partition_not_from_the_last_activity() -> None:
    world = World()
    producer = world.producer(timeout_ms=5_000)
    for number, partition in enumerate((A0, A1, B0)):
        world.add(producer, partition)
        world.produce(producer, A0, number, adds_partitions=False)
        world.settle(1_900)
    assert world.transactions.abort_overdue(10) == ["t"]


def test_T5_a_fail_over_does_not_restart_the_time_out() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.produce(producer, A0, 0)
    world.settle(6_000)
    world = world.crash(down_ms=3_000)
    world.settle(999)
    assert world.transactions.abort_overdue(10) == []
    world.settle(1)
    assert world.transactions.abort_overdue(10) == ["t"]
    assert outcomes(world, A0) == [False]


@pytest.mark.parametrize("down_ms", [-3_600_000, 3_600_000], ids=["back", "far ahead"])
def test_T5_a_wall_clock_that_jumps_makes_it_no_longer_than_once_more(down_ms: int) -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.produce(producer, A0, 0)
    world = world.crash(down_ms=down_ms)
    world.settle(0 if down_ms > 0 else 10_000)
    assert world.transactions.abort_overdue(10) == ["t"]


def test_T9_many_overdue_transactions_are_aborted_a_few_at_a_time() -> None:
    world = World()
    for number in range(25):
        producer = world.producer(f"t{number}", timeout_ms=1_000)
        world.add(producer, A0, transactional_id=f"t{number}")
    world.settle(1_000)
    assert [len(world.transactions.abort_overdue(10)) for _ in range(4)] == [10, 10, 5, 0]


def test_T8_while_nothing_can_be_written_no_epoch_is_spent() -> None:
    world = World()
    producer = opened(world, A0)
    world.files.capacity = 0
    for _ in range(50):
        assert value_of(world.init()).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.settle(60_000)
    assert world.transactions.abort_overdue(10) == []  # and no busy loop of the scan
    world.files.capacity = None
    world.init()
    assert world.producer() == (producer[0], producer[1] + 2)


# --- group offsets


@OUTCOMES
def test_O1_O2_offsets_are_pending_until_the_marker(committed: bool) -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    world.commit_offset(producer, 42)
    assert world.offset(require_stable=True)[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert world.offset() == (ErrorCode.NONE, -1)
    value_of(world.end(producer, committed))
    for require_stable in (False, True):
        expected = (ErrorCode.NONE, 42 if committed else -1)
        assert world.offset(require_stable=require_stable) == expected
    assert world.crash().offset() == (ErrorCode.NONE, 42 if committed else -1)


def test_O7_pending_offsets_are_pending_again_after_a_restart() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    world.commit_offset(producer, 42)
    world = world.crash()
    assert world.offset(require_stable=True)[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    value_of(world.end(producer, True))
    assert world.offset(require_stable=True) == (ErrorCode.NONE, 42)


def test_O8_a_marker_meets_a_group_shard_that_is_not_loaded() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    world.commit_offset(producer, 42)
    world.groups.resign(0)
    value_of(world.end(producer, True))
    assert state(world) is State.PREPARE_COMMIT
    world.groups.lead(world.partitions[OFFSETS])
    world.settle(1_000)
    assert state(world) is State.COMPLETE_COMMIT
    assert world.offset(require_stable=True) == (ErrorCode.NONE, 42)


# --- read_committed


def test_L2_the_view_of_a_reader_is_that_of_an_oracle_at_every_step() -> None:
    world = World()
    random = Random(7)
    producers: dict[str, tuple[int, int]] = {}
    sequences: dict[tuple[str, TopicPartition], int] = {}
    for number in range(300):
        name = f"t{random.randrange(8)}"
        if name not in producers:
            producers[name] = world.producer(name)
        producer = producers[name]
        if random.random() < 0.7:
            partition = random.choice([A0, A1, B0])
            sequence = sequences.get((name, partition), 0)
            append, _ = world.produce(
                producer, partition, sequence, b"%d" % number, transactional_id=name
            )
            assert append.code is ErrorCode.NONE
            sequences[name, partition] = sequence + 1
        else:
            result = value_of(world.end(producer, random.random() < 0.5, transactional_id=name))
            if result.code is ErrorCode.NONE:
                producers[name] = (result.producer_id, result.producer_epoch)
                sequences = {key: n for key, n in sequences.items() if key[0] != name}
        if number % 10 == 0:
            world.check()
    world.check()
