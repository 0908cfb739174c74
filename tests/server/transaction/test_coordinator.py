"""The whole path of a transaction on a single broker in memory."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.states import State
from tests.server.storage.memory_files import NO_SPACE
from tests.server.transaction.scenes import opened, outcomes, state
from tests.server.transaction.world import A0, A1, B0, OFFSETS, TXN_LOG, World, value_of

VERSIONS = pytest.mark.parametrize("bumps_epoch", [False, True], ids=["V1", "V2"])
OUTCOMES = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])


# --- without waiting for the disk


@VERSIONS
@OUTCOMES
def test_end_txn_responds_after_complete_within_its_own_call(
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
def test_back_to_back_transactions_never_get_the_code_concurrent_transactions(
    bumps_epoch: bool,
) -> None:
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


def test_a_marker_carries_the_epoch_of_the_next_transaction_and_the_coordinator_epoch() -> None:
    world = World(leader_epoch=7)
    producer_id, epoch = opened(world, A0)
    value_of(world.end((producer_id, epoch), True))
    entry = world.partitions[A0]._log.producers.entry(producer_id)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch) == (epoch + 1, 7)


def test_L7_a_transaction_without_records_leaves_only_a_marker() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, A0)
    assert value_of(world.end(producer, False)).code is ErrorCode.NONE
    partition = world.partitions[A0]
    assert (partition.log_end_offset, partition.last_stable_offset) == (1, 1)
    assert partition._log.aborted_transactions(0, 10) == []


# --- oncelog.flush.on.ack


def test_no_response_is_sent_before_its_records_are_on_disk() -> None:
    world = World(flush_on_ack=True)
    first = world.init()
    assert isinstance(first, Deferred)
    assert not first.done
    world.settle()
    producer = (first.value.producer_id, first.value.producer_epoch)

    append, later = world.produce(producer, A0, 0)
    assert later is not None
    # The sync of the AddPartitionsToTxn record comes first.
    assert (world.partitions[A0].log_end_offset, later.done) == (0, False)
    world.files.settle()
    assert later.done
    assert append.code is ErrorCode.NONE

    response = world.end(producer, True)
    assert isinstance(response, Deferred)
    markers = world.partitions[A0].log_end_offset
    assert (response.done, markers) == (False, 1), "M9, M10: PREPARE is not on disk yet"
    world.settle()
    assert value_of(response).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT
    for name, partition in world.partitions.items():
        assert partition.high_watermark == partition.log_end_offset, name


def test_while_a_decision_is_not_on_disk_the_id_is_busy() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    first = world.add(producer, A0)
    others = (
        world.add(producer, A1),
        world.init(),
        world.end(producer, True),
        world.end(producer, True, bumps_epoch=False),
    )
    for response in others:
        assert value_of(response).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.settle()
    assert value_of(first).code is ErrorCode.NONE
    # The records are durable, so the response comes at once.
    assert value_of(world.add(producer, A0)).code is ErrorCode.NONE


def test_T3_the_scan_does_not_abort_a_transaction_with_a_pending_commit() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer(timeout_ms=1_000)
    world.produce(producer, A0, 0)
    world.settle()
    response = world.end(producer, True)
    world.timers.now_ms += 5_000
    assert world.transactions.abort_overdue(10) == []
    world.settle()
    assert value_of(response).code is ErrorCode.NONE
    assert outcomes(world, A0) == [True]


def test_S16_a_failed_fsync_acknowledges_nothing() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.files.fail_sync()
    response = world.add(producer, A0)
    world.settle()
    assert value_of(response).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.partitions[TXN_LOG].offline is not None
    assert value_of(world.add(producer, A0)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("then", ["continues", "crashes"])
@VERSIONS
@OUTCOMES
def test_D2_an_end_txn_that_the_disk_refuses_sends_no_marker_and_can_be_retried(
    committed: bool, bumps_epoch: bool, then: str
) -> None:
    world = World()
    producer = opened(world, A0, A1, B0)
    ends = {name: world.partitions[name].log_end_offset for name in (A0, A1, B0, TXN_LOG)}

    def grown() -> set[int]:
        """Return the set of the numbers of new records, over all partitions."""
        return {world.partitions[name].log_end_offset - end for name, end in ends.items()}

    world.files.fail_append(match="__transaction_state-0/", reason=NO_SPACE)
    refused = value_of(world.end(producer, committed, bumps_epoch=bumps_epoch))
    assert refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.transactions.find("t").waiting == []
    world.settle(10_000)
    assert grown() == {0}
    assert (state(world), world.partitions[A0].last_stable_offset) == (State.ONGOING, 0)
    if then == "crashes":
        world = world.crash()
        world.settle(10_000)
        assert grown() == {0}
    response = world.end(producer, committed, bumps_epoch=bumps_epoch)
    world.settle(10_000)
    assert value_of(response).code is ErrorCode.NONE
    # 1: a marker in each partition. 2: PREPARE and COMPLETE in the coordinator's log.
    assert grown() == {1, 2}
    for partition in (A0, A1, B0):
        assert outcomes(world, partition) == [committed]
        assert world.read(partition) == ([b"v"] if committed else [])
    world.check()


# --- group offsets


@OUTCOMES
def test_O1_O2_transactional_offsets_are_pending_until_the_marker(committed: bool) -> None:
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


def test_O8_a_marker_is_appended_only_after_the_load_of_its_group_shard() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, OFFSETS)
    world.commit_offset(producer, 42)
    world.groups.resign(0)
    end_offset = world.partitions[OFFSETS].log_end_offset
    value_of(world.end(producer, True))
    world.settle(10_000)
    assert state(world) is State.PREPARE_COMMIT
    # However often the coordinator retries, no marker is appended before the shard is loaded.
    assert world.partitions[OFFSETS].log_end_offset == end_offset
    world.groups.lead(world.partitions[OFFSETS])
    world.settle(1_000)
    assert state(world) is State.COMPLETE_COMMIT
    assert world.offset(require_stable=True) == (ErrorCode.NONE, 42)


# --- read_committed


def test_L2_readers_see_the_same_records_as_an_oracle_throughout_a_random_run() -> None:
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
