"""The coordinator completes every decided transaction, even if markers fail, or if leaders are
unavailable or on other brokers."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.completion import HOLD_MS, RETRY_MAX_MS
from oncelog_server.transaction.marker_delivery import MarkerSender
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.states import State
from tests.server.transaction import group_scenes
from tests.server.transaction.grouped.driver import IN0
from tests.server.transaction.scenes import Remote, opened, outcomes, state
from tests.server.transaction.world import A0, A1, B0, GROUP, OFFSETS, TXN_LOG, World, value_of

# --- markers that fail


def test_CJ_Z7_a_failed_marker_delays_no_other_marker_and_is_retried() -> None:
    world = World()
    producer = opened(world, A0, A1, B0)
    world.files.fail_append(match="a-1/0")
    response = world.end(producer, True)
    assert value_of(response).code is ErrorCode.NONE  # the commit is decided
    assert state(world) is State.PREPARE_COMMIT
    assert (outcomes(world, A0), outcomes(world, A1), outcomes(world, B0)) == ([True], [], [True])
    assert value_of(world.init()).code is ErrorCode.CONCURRENT_TRANSACTIONS  # Z7
    world.check()
    world.settle(1_000)
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A1) == [True]
    assert [world.oracle(partition).end_offset for partition in (A0, A1, B0)] == [
        2,
        2,
        2,
    ]  # a record and a marker in each partition


def test_T7_markers_for_an_unavailable_leader_are_retried_with_back_off() -> None:
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


def test_CK_the_marker_of_a_deleted_partition_is_dropped_and_the_rest_completes() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.gone.add(A1)
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A0) == [True]


@pytest.mark.parametrize("committed", [True, False])
def test_a_topic_recreated_during_a_transaction_gets_a_harmless_marker(
    committed: bool,
) -> None:
    world = World()
    producer = opened(world, A0, B0)
    world.recreate(A0)
    assert value_of(world.end(producer, committed)).code is ErrorCode.NONE
    assert state(world) is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    anew = world.partitions[A0]
    assert anew.last_stable_offset == anew.high_watermark == anew.log_end_offset == 1
    assert world.read(A0) == []
    assert outcomes(world, B0) == [committed]
    world.check()


def test_N11_a_partition_that_is_temporarily_unknown_gets_its_marker_later() -> None:
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


def test_CJ_a_partition_with_a_newer_producer_epoch_needs_no_marker() -> None:
    world = World()
    producer = opened(world, A0, A1)
    partition = world.partitions[A1]
    partition.append_marker(
        producer[0], 9, committed=True, coordinator_epoch=0, transaction_version=2, now_ms=0
    )
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT


def test_Z13_Z14_a_replaced_coordinator_stops_and_responds_not_coordinator() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.partitions[A1].append_marker(
        producer[0], 0, committed=False, coordinator_epoch=5, transaction_version=0, now_ms=0
    )
    end = world.partitions[A1].log_end_offset
    response = world.end(producer, True)
    assert value_of(response).code is ErrorCode.NOT_COORDINATOR
    world.settle(60_000)
    assert world.partitions[A1].log_end_offset == end
    assert world.is_quiet


def test_a_marker_refused_with_an_unexpected_code_is_retried() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    world.end(producer, True)
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


def test_I17_a_complete_record_whose_fsync_fails_leaves_no_request_waiting() -> None:
    world = World(flush_on_ack=True)
    producer = world.producer()
    world.produce(producer, A0, 0)
    world.settle()
    response = world.end(producer, True)
    while world.oracle(TXN_LOG).end_offset < 4:  # init, add, PREPARE, COMPLETE
        world.files.pending.pop(0)()
    world.files.fail_sync()
    world.settle()
    assert value_of(response).code is ErrorCode.NONE  # PREPARE is on disk
    assert world.partitions[TXN_LOG].offline is not None


# --- partitions without markers


def test_a_marker_waits_for_the_group_coordinator_and_is_appended_once() -> None:
    world = World()
    producer = world.producer()
    value_of(world.add(producer, OFFSETS))
    world.commit_offset(producer, 5)
    partition = world.partitions[OFFSETS]
    end_offset = partition.log_end_offset
    world.groups.resign(0)
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    world.settle(5_000)
    assert partition.log_end_offset == end_offset
    world.groups.lead(partition)
    world.settle(5_000)
    assert partition.log_end_offset == end_offset + 1
    assert world.offset() == (ErrorCode.NONE, 5)


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS - {CONSUMER_OFFSETS}))
def test_no_marker_is_written_to_an_internal_topic_that_no_transaction_writes_to(
    topic: str,
) -> None:
    world = World()
    log = TopicPartition(topic, 0)
    before = world.oracle(TXN_LOG).end_offset
    codes: list[ErrorCode] = []
    work = MarkerWork("", 7, 0, False, 0, 0, (log,))
    world.local.send(work, [log], lambda partition, code: codes.append(code))
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert world.oracle(TXN_LOG).end_offset == before


def test_a_transaction_that_names_the_transaction_log_completes_without_a_marker_there() -> None:
    """In an older release, a transaction could include a partition of the transaction log."""
    world = World()
    producer = opened(world, A0)
    world.add(producer, TXN_LOG)
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT
    assert outcomes(world, A0) == [True]
    assert world.oracle(TXN_LOG).completed == []


def test_a_transaction_log_that_contains_a_marker_is_loaded() -> None:
    world = World()
    producer = opened(world, A0)
    world.partitions[TXN_LOG].append_marker(
        7, 0, committed=True, coordinator_epoch=0, transaction_version=0, now_ms=world.wall()
    )
    world = world.crash()
    assert world.stray_markers == [(0, 1)]
    assert value_of(world.end(producer, True)).code is ErrorCode.NONE
    assert world.read(A0) == [b"v"]


# --- another broker leads


def test_with_a_remote_leader_the_response_waits_for_complete() -> None:
    """The next transaction of the producer then never gets CONCURRENT_TRANSACTIONS."""
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    response = world.end(producer, True)
    assert isinstance(response, Deferred)
    world.settle(HOLD_MS - 1)
    assert not response.done
    assert state(world) is State.PREPARE_COMMIT
    remote.answer()
    assert value_of(response).code is ErrorCode.NONE
    assert state(world) is State.COMPLETE_COMMIT
    next_one = (value_of(response).producer_id, value_of(response).producer_epoch)
    assert value_of(world.add(next_one, A0)).code is ErrorCode.NONE
    world.end(next_one, True)
    world.settle()
    assert world.is_quiet


def test_a_slow_remote_leader_delays_the_response_by_25_ms_at_most() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    response = world.end(producer, True)
    world.settle(HOLD_MS)
    result = value_of(response)
    assert (result.code, result.producer_epoch) == (ErrorCode.NONE, producer[1] + 1)
    assert state(world) is State.PREPARE_COMMIT
    next_one = (result.producer_id, result.producer_epoch)
    assert value_of(world.add(next_one, A0)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [partitions for _, partitions, _ in remote.sent] == [[A1]]
    remote.answer()
    assert state(world) is State.COMPLETE_COMMIT
    assert value_of(world.add(next_one, A0)).code is ErrorCode.NONE


def test_markers_in_flight_are_not_sent_again_when_their_id_joins_the_group_again() -> None:
    world = World()
    single = group_scenes.member(world, "one", 1, IN0)
    group_scenes.add(world, single, A0, version=0)
    world.scene.remote[A0] = remote = Remote()
    first = group_scenes.end(world, single)
    world.settle(HOLD_MS)
    assert value_of(first).code is ErrorCode.NONE
    assert (
        value_of(group_scenes.join(world, "one", 2, IN0)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    )
    assert len(remote.sent) == 1
    remote.answer()
    # The next transaction of the same epoch waits for its own marker.
    group_scenes.add(world, single, A0, version=0)
    second = group_scenes.end(world, single)
    world.settle(HOLD_MS)
    assert value_of(second).code is ErrorCode.NONE
    assert len(remote.sent) == 1
    (_, shard) = world.transactions.owner(GROUP)
    assert set(shard.prepared) == {"one"}
    remote.answer()
    assert not shard.prepared


def test_a_remote_leader_that_closes_its_connection_is_retried() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.remote[A1] = remote = Remote()
    response = world.end(producer, False)
    remote.answer(ErrorCode.NETWORK_EXCEPTION)
    assert value_of(response).code is ErrorCode.NONE, "the outcome is decided"
    assert not remote.sent
    world.settle(1_000)
    (work, _, _) = remote.sent[0]
    assert (work.committed, work.partitions) == (False, (A1,))
    remote.answer()
    assert state(world) is State.COMPLETE_ABORT


def test_a_response_after_the_loss_of_the_shard_changes_nothing() -> None:
    world = World()
    producer = opened(world, A0)
    world.scene.remote[A0] = remote = Remote()
    world.end(producer, True)
    world.transactions.resign(0)
    remote.answer()
    with pytest.raises(Refused):
        world.transactions.owner("t")
    assert world.oracle(TXN_LOG).end_offset == 3


def test_markers_are_retried_at_once_when_the_metadata_changes() -> None:
    world = World()
    producer = opened(world, A0, A1)
    world.scene.leaderless.add(A1)
    world.end(producer, True)
    world.settle(30_000)  # the back-off is at its maximum
    world.scene.leaderless.clear()
    world.transactions.follow(ClusterImage(), ClusterImage(), ImageDelta(brokers_changed=True))
    world.settle()
    assert state(world) is State.COMPLETE_COMMIT
    world.settle(2 * RETRY_MAX_MS)
    assert outcomes(world, A1) == [True]


def test_a_retry_for_new_metadata_takes_the_place_of_the_one_after_the_pause() -> None:
    """Otherwise each change of the metadata would add a chain of retries."""
    world = World()
    producer = opened(world, A0)
    world.scene.leaderless.add(A0)
    world.end(producer, True)
    asked = Asked(world)
    world.settle(30_000)  # the back-off is at its maximum
    for _ in range(5):
        world.transactions.follow(ClusterImage(), ClusterImage(), ImageDelta(brokers_changed=True))
        world.settle()
    asked.count = 0
    world.settle(10 * RETRY_MAX_MS)
    assert asked.count <= 11


class Asked:
    """Counts the searches for a leader."""

    def __init__(self, world: World) -> None:
        self.count = 0
        find = world.scene.marker_sender

        def counted(partition: TopicPartition) -> MarkerSender | None:
            self.count += 1
            return find(partition)

        world.scene.marker_sender = counted  # type: ignore[method-assign]  # counts its calls
