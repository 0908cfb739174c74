"""InitProducerId in a consumer group: a newer generation, or a member with the same input
partitions, fences older producers (KIP-447, early draft)."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.grouped.init import decide_init_in_group
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, NO_TIMEOUT_MS
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1
from tests.server.transaction.grouped.driver import GROUP, IN0, IN1, IN2, GroupDriver

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
ILLEGAL = ErrorCode.ILLEGAL_GENERATION


def test_an_older_generation_is_refused_and_leaves_no_record() -> None:
    driver = GroupDriver()
    driver.member("a", 5, IN0)
    records = len(driver.log)
    assert driver.join("b", 4, IN1).value.code is ILLEGAL
    assert driver.join("a", 4, IN0).value.code is ILLEGAL
    assert len(driver.log) == records
    assert driver.shard.get("b") is None
    assert driver.join("b", 5, IN1).value.code is NONE


def test_an_older_generation_waits_for_a_pending_newer_one() -> None:
    driver = GroupDriver(holds_commits=True)
    newer = driver.join("a", 5, IN0)
    records = len(driver.log)
    for name in ("a", "b"):
        assert driver.join(name, 4, IN1).value.code is BUSY
    assert len(driver.log) == records
    driver.release()
    assert newer.value.code is NONE
    for name in ("a", "b"):
        assert driver.join(name, 4, IN1).value.code is ILLEGAL


def test_no_request_waits_for_a_generation_that_never_came() -> None:
    driver = GroupDriver(append_error=ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.join("a", 5, IN0).value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.append_error = None
    assert driver.join("b", 4, IN0).value.code is NONE


def test_a_join_after_every_rebalance_bumps_the_epoch() -> None:
    driver = GroupDriver()
    epochs = [driver.member("a", generation, IN0).producer_epoch for generation in range(1, 6)]
    assert epochs == list(range(5))


def test_a_producer_with_one_of_the_input_partitions_is_aborted_and_fenced_first() -> None:
    driver = GroupDriver(finishes=False)
    older = driver.member("a", 1, IN0, IN1)
    driver.begin(older, P0)
    assert driver.join("b", 2, IN1, IN2).value.code is BUSY
    assert driver.state_of("a") is State.PREPARE_ABORT
    # The transaction is aborted only once, however often the client retries. No retry bumps the
    # epoch.
    records = len(driver.log)
    assert driver.join("b", 2, IN1, IN2).value.code is BUSY
    assert len(driver.log) == records
    driver.finish("a")
    result = driver.join("b", 2, IN1, IN2).value
    assert result.code is NONE
    assert result.producer_epoch <= 1
    late = driver.add(older.producer_id, older.producer_epoch, P0, transactional_id="a").value
    assert late.code is ErrorCode.PRODUCER_FENCED


def test_a_member_of_the_same_generation_may_take_over_a_partition() -> None:
    """The same static member was restarted with another transactional id."""
    driver = GroupDriver()
    older = driver.member("a", 1, IN0)
    driver.begin(older, P0)
    assert driver.join("b", 1, IN0).value.code is BUSY
    assert driver.state_of("a") is State.COMPLETE_ABORT
    assert driver.join("b", 1, IN0).value.code is NONE


def test_other_input_partitions_of_the_same_generation_are_left_alone() -> None:
    driver = GroupDriver()
    other = driver.member("a", 1, IN0)
    driver.begin(other, P0)
    assert driver.join("b", 1, IN1).value.code is NONE
    assert driver.state_of("a") is State.ONGOING
    assert driver.end(*other[1:], True, transactional_id="a").value.code is NONE


def test_an_open_transaction_of_an_older_generation_is_aborted_without_a_wait() -> None:
    driver = GroupDriver(finishes=False)
    older = driver.member("a", 1, IN0)
    driver.begin(older, P0)
    assert driver.join("b", 2, IN1).value.code is NONE
    assert driver.state_of("a") is State.PREPARE_ABORT
    assert driver.shard.groups.is_outdated("a")


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_decided_transaction_is_waited_for_and_not_decided_again(state: State) -> None:
    driver = GroupDriver(finishes=False)
    older = driver.member("a", 1, IN0)
    driver.begin(older, P0)
    driver.end(*older[1:], state is State.PREPARE_COMMIT, transactional_id="a")
    assert driver.join("b", 2, IN0).value.code is BUSY
    assert driver.state_of("a") is state
    driver.finish("a")
    assert driver.join("b", 2, IN0).value.code is NONE


def test_a_producer_with_a_pending_record_is_waited_for() -> None:
    driver = GroupDriver()
    older = driver.member("a", 1, IN0)
    driver.member("b", 1, IN1)
    driver.holds_commits = True
    driver.begin(older, P0)
    response = driver.join("b", 2, IN0)
    assert driver.state_of("a") is State.EMPTY
    driver.release()
    assert response.value.code is BUSY
    driver.holds_commits = False
    assert driver.join("b", 2, IN0).value.code is BUSY
    assert driver.join("b", 2, IN0).value.code is NONE
    assert driver.state_of("a") is State.COMPLETE_ABORT


def test_a_participant_in_two_phase_commit_is_waited_for_however_long() -> None:
    driver = GroupDriver()
    older = driver.member("a", 1, IN0)
    driver.begin(older, P0)
    live = driver.live_of("a")
    live.metadata = replace(live.metadata, timeout_ms=NO_TIMEOUT_MS)
    for _ in range(3):
        assert driver.join("b", 2, IN0).value.code is BUSY
    assert driver.state_of("a") is State.ONGOING


def test_the_ids_own_open_transaction_is_aborted_as_without_a_group() -> None:
    driver = GroupDriver()
    first = driver.member("a", 1, IN0)
    driver.begin(first, P0, P1)
    assert driver.join("a", 2, IN0).value.code is BUSY
    again = driver.join("a", 2, IN0).value
    assert again.code is NONE
    assert again.producer_epoch > first.producer_epoch


def test_generations_are_known_after_a_crash_of_the_coordinator() -> None:
    driver = GroupDriver()
    driver.member("a", 1, IN0)
    driver.member("b", 2, IN1)
    driver.crash()
    assert driver.shard.groups.is_outdated("a")
    assert driver.join("a", 1, IN0).value.code is ILLEGAL
    assert driver.join("a", 2, IN0).value.code is NONE
    assert not driver.shard.groups.is_outdated("a")


def test_a_join_with_a_failed_append_changes_nothing() -> None:
    driver = GroupDriver()
    older = driver.member("a", 1, IN0)
    driver.begin(older, P0)
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.join("b", 2, IN0).value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.append_error = None
    assert driver.shard.get("b") is None
    assert driver.shard.groups.newest_generation(GROUP) == 1
    assert driver.end(*older[1:], True, transactional_id="a").value.code is NONE


def test_a_membership_that_cannot_be_encoded_leaves_no_member_busy() -> None:
    driver = GroupDriver()
    driver.member("a", 1, IN0)
    with pytest.raises(struct.error):
        driver.join("a", 1 << 31, IN0)
    assert driver.join("a", 1, IN0).value.code is NONE


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
def test_a_refused_call_fences_no_producer(timeout_ms: int) -> None:
    driver = GroupDriver()
    older = driver.member("a", 1, IN0)
    driver.begin(older, P0)
    decision = driver.decide(
        decide_init_in_group,
        driver.shard,
        InitProducerId("b", timeout_ms),
        GroupAssignment(GROUP, 2, frozenset({IN0})),
        wall_ms=driver.wall_ms,
        new_producer_id=driver.new_producer_id,
    )
    assert (decision.records, decision.effects) == ((), ())
    assert driver.end(*older[1:], True, transactional_id="a").value.code is NONE


# --- an id moves to another coordinator


def test_an_id_that_moves_away_has_no_producer_here() -> None:
    driver = GroupDriver()
    first = driver.member("a", 1, IN0)
    assert driver.depart("a").value.code is NONE
    assert driver.state_of("a") is State.DEAD
    assert not driver.shard.groups.memberships
    for code in (
        driver.add(*first[1:], P0, transactional_id="a").value.code,
        driver.end(*first[1:], True, transactional_id="a").value.code,
        driver.init(*first[1:], transactional_id="a").value.code,
        driver.end(first.producer_id, first.producer_epoch, True, transactional_id="a",
                   bumps_epoch=False).value.code,
    ):  # fmt: skip
        assert code is ErrorCode.PRODUCER_FENCED
    records = len(driver.log)
    assert driver.depart("a").value.code is NONE
    assert len(driver.log) == records
    driver.crash()
    assert driver.state_of("a") is State.DEAD
    # When the id returns, its producer is a new instance.
    assert driver.init(transactional_id="a").value.producer_epoch == first.producer_epoch + 2


@pytest.mark.parametrize("epoch", [LAST_PRODUCER_EPOCH - 1, LAST_PRODUCER_EPOCH])
def test_an_id_fenced_at_its_last_epoch_can_move(epoch: int) -> None:
    driver = GroupDriver()
    driver.put(State.ONGOING, producer_epoch=epoch, client_transaction_version=0)
    assert driver.depart(ID).value.code is BUSY
    assert driver.depart(ID).value.code is NONE
    assert driver.metadata.producer_epoch == LAST_PRODUCER_EPOCH + 1
    assert driver.add(77, epoch, P0).value.code is ErrorCode.PRODUCER_FENCED
    assert driver.add(77, LAST_PRODUCER_EPOCH + 1, P0).value.code is ErrorCode.PRODUCER_FENCED
    back = driver.init().value
    assert (back.code, back.producer_epoch) == (NONE, 0)
    assert back.producer_id != 77


def test_an_open_transaction_is_aborted_before_its_id_moves() -> None:
    driver = GroupDriver(finishes=False)
    first = driver.member("a", 1, IN0)
    driver.begin(first, P0)
    assert driver.depart("a").value.code is BUSY
    assert driver.depart("a").value.code is BUSY
    driver.finish("a")
    assert driver.state_of("a") is State.COMPLETE_ABORT
    assert driver.depart("a").value.code is NONE


def test_an_id_unknown_to_the_coordinator_departs_at_once() -> None:
    driver = GroupDriver()
    assert driver.depart("a").value.code is NONE
    assert not driver.log
