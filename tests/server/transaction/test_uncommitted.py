"""Decisions that are not committed yet. A shard is served when the last record that its load has
replayed is committed. An uncommitted decision may be lost with this leader, and the next
coordinator then decides anew (B16)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.states import State
from tests.server.transaction.scenes import outcomes, state
from tests.server.transaction.world import A0, A1, TXN_LOG, World, value_of


def prepared_and_loaded_again() -> World:
    """Return a coordinator that has loaded a PREPARE which is not committed: it has regained the
    leadership in the next epoch, and its log has not been synced since."""
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.produce(producer, A0, 0)
    world.settle()
    world.slow.add(TXN_LOG)
    world.end(producer, True)
    partition = world.partitions[TXN_LOG]
    assert partition.high_watermark < partition.log_end_offset
    world.transactions.resign(0)
    partition.become_leader(0, 1, (0,), (0,))
    world.transactions.lead(partition)
    return world


def code(world: World) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        world.transactions.owner("t")
    return refused.value.code


def test_b16_no_marker_leaves_before_its_prepare_is_committed() -> None:
    world = prepared_and_loaded_again()
    world.settle(10_000)
    assert outcomes(world, A0) == []
    assert code(world) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.hurry()
    world.settle(10_000)
    assert outcomes(world, A0) == [True]
    assert state(world) is State.COMPLETE_COMMIT


def test_b16_a_coordinator_that_loses_its_leadership_first_sends_nothing() -> None:
    world = prepared_and_loaded_again()
    world.partitions[TXN_LOG].resign()
    world.transactions.resign(0)
    world.hurry()
    world.settle(10_000)
    assert outcomes(world, A0) == []
    assert code(world) is ErrorCode.NOT_COORDINATOR


def test_b16_a_coordinator_without_its_disk_refuses_requests() -> None:
    world = prepared_and_loaded_again()
    world.partitions[TXN_LOG].fail("the disk is gone")
    world.settle(10_000)
    assert outcomes(world, A0) == []
    assert code(world) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("resigns", [False, True])
def test_a_decision_has_a_response_if_the_coordinator_is_loaded_again(resigns: bool) -> None:
    """The end of a reassignment raises the leader epoch, and the leader may stay. A retry of EndTxn
    finds the decision."""
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.produce(producer, A0, 0)
    world.settle()
    world.slow.add(TXN_LOG)
    ended = world.end(producer, True)
    partition = world.partitions[TXN_LOG]
    if resigns:
        world.transactions.resign(0)
    partition.become_leader(0, 1, (0,), (0,))
    world.transactions.lead(partition)
    world.settle(1_000)
    assert isinstance(ended, Deferred)
    assert not ended.done
    world.hurry()
    world.settle(10_000)
    assert ended.value.code is ErrorCode.NOT_COORDINATOR
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A0) == [True]
    again = world.end(producer, True)
    world.settle(10_000)
    found = again.value if isinstance(again, Deferred) else again
    assert found.code is ErrorCode.NONE


def test_a_pending_decision_delays_no_verification() -> None:
    """While AddPartitionsToTxn waits for its replicas, a leader verifies a partition that the
    transaction has already. Otherwise clients would retry, and wait."""
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.add(producer, A0)
    world.settle()
    world.slow.add(TXN_LOG)
    world.add(producer, A1)
    for partition, expected in (
        (A0, ErrorCode.NONE),
        (A1, ErrorCode.CONCURRENT_TRANSACTIONS),
    ):
        assert verified(world, producer, partition) is expected


def test_a_verification_of_a_fenced_producer_or_of_another_group_is_refused() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, A0)
    producer_id, epoch = producer
    assert verified(world, producer, A0) is ErrorCode.NONE
    assert verified(world, (producer_id, epoch - 1), A0) is ErrorCode.PRODUCER_FENCED
    unknown = verified(world, (producer_id + 7, epoch), A0)
    assert unknown is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    another = verified(world, producer, A0, group_id="g")
    assert another is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def verified(
    world: World, producer: tuple[int, int], partition: TopicPartition, group_id: str | None = None
) -> ErrorCode:
    verify = AddPartitions(
        "t", *producer, frozenset({partition}), 2, verify_only=True, group_id=group_id
    )
    return value_of(world.transactions.add_partitions(verify)).code
