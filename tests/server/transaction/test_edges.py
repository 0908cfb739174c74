"""Values at the limits of conditions. Generated mutants showed that other tests do not cover these
limits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.commands.expiry import is_expired
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
)
from oncelog_server.transaction.fences import Fence, FenceCause, Fences, fence_of, taken_over_by
from oncelog_server.transaction.grouped import restart as group_restart
from oncelog_server.transaction.grouped.init import decide_init_outside_group
from oncelog_server.transaction.grouped.refusals import refuse_outdated
from oncelog_server.transaction.groups import GroupAssignment, TransactionGroups, to_record
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, NO_TIMEOUT_MS
from oncelog_server.transaction.states import INIT_PRODUCER_ID, State
from tests.server.transaction.driver import ID, P0, P1, Driver
from tests.server.transaction.grouped.driver import GROUP, IN0, GroupDriver

LAST = LAST_PRODUCER_EPOCH


def test_a_transaction_kept_with_the_first_epoch_of_a_new_producer_id_can_only_be_ended() -> None:
    driver = Driver()
    driver.put(State.ONGOING, producer_epoch=LAST, next_producer_id=1_000, next_producer_epoch=0)
    for partition in (P0, P1):
        assert driver.add(1_000, 0, partition).value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("epoch", [0, 5])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_txn_with_epoch_minus_1_is_never_a_retry(committed: bool, epoch: int) -> None:
    """The last epoch in the record is -1, because a newer instance made the last bump. This
    value does not match the epoch -1 of a request."""
    driver = Driver()
    state = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
    driver.put(state, producer_epoch=epoch, last_producer_epoch=-1)
    assert driver.end(77, -1, committed).value.code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("bumps_epoch", "version"), [(False, 0), (True, 2)])
def test_the_record_has_the_transaction_version_of_the_client(
    kept: bool, bumps_epoch: bool, version: int
) -> None:
    driver = Driver()
    keeper = {"next_producer_id": 77, "next_producer_epoch": 6} if kept else {}
    driver.put(State.ONGOING, client_transaction_version=1, **keeper)
    driver.end(77, 6 if kept else 5, True, bumps_epoch=bumps_epoch)
    assert driver.state is State.COMPLETE_COMMIT
    assert driver.metadata.client_transaction_version == version


@pytest.mark.parametrize("state", INIT_PRODUCER_ID)
def test_an_id_without_an_incomplete_transaction_expires_exactly_at_its_time(state: State) -> None:
    driver = Driver(finishes=False)
    driver.put(state, last_update_ms=1_000)
    rests = state not in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    assert not is_expired(driver.live, before_ms=999)
    assert is_expired(driver.live, before_ms=1_000) == rests
    driver.put(state, last_update_ms=0)
    assert is_expired(driver.live, before_ms=1_000) == rests
    driver.put(state, last_update_ms=-1)
    assert not is_expired(driver.live, before_ms=1_000)


def test_an_abort_by_an_operators_marker_fences_no_producer() -> None:
    fences = Fences()
    known = fences.remember_abort((), Fence("t", 77, 5, FenceCause.OPERATOR, 0, None, None, True))
    (fence,) = known
    assert fence_of(known, 77, 5) is None
    assert fence.label == "operator, past the coordinator"
    assert (fences.aborted[FenceCause.OPERATOR], fences.fenced[FenceCause.OPERATOR]) == (1, 0)


def test_the_last_abort_by_an_operators_marker_is_kept_beside_the_fence() -> None:
    cut_off, first, second, another = (
        Fence("t", producer_id, 5, FenceCause.OPERATOR, at_ms, None, None, True)
        for at_ms, producer_id in enumerate((77, 77, 77, 78))
    )
    fences = Fences()
    known = fences.remember((), cut_off)
    for item in (another, first, second):
        known = fences.remember_abort(known, item)
    assert known == (cut_off, replace(another, refuses=False), replace(second, refuses=False))


def test_a_producer_refused_because_of_a_newer_generation_stays_refused() -> None:
    driver = GroupDriver()
    outdated = driver.member("a", 1, IN0)
    driver.join("b", 2, IN0)
    live = driver.live_of("a")
    live.fences = live.fences[:0]
    decision = driver.decide(refuse_outdated, driver.shard, live, outdated[1:], driver.wall_ms)
    driver.run(decision)
    assert [fence.for_good for fence in live.fences] == [True]


def test_a_leaving_id_is_forgotten_if_another_id_has_the_newest_generation() -> None:
    groups = TransactionGroups()
    for name, generation_id in (("a", 1), ("b", 2), ("c", 2)):
        groups.replay(to_record(name, GroupAssignment("g", generation_id, frozenset())))
    assert len(groups.removal(["b"])) == 1
    assert len(groups.removal(["b", "c"])) == 3


def test_a_takeover_of_an_id_has_the_cause_newer_instance_unless_an_operator_made_it() -> None:
    assert taken_over_by(None).cause is FenceCause.NEWER_INSTANCE
    assert taken_over_by(None, by_operator=True).cause is FenceCause.OPERATOR


def test_init_producer_id_is_not_by_an_operator_by_default() -> None:
    driver = Driver()
    driver.put(State.ONGOING)
    command = InitProducerId(ID, 60_000)
    decision = driver.decide(
        decide_init_producer_id,
        driver.shard,
        command,
        wall_ms=driver.wall_ms,
        new_producer_id=driver.new_producer_id,
    )
    driver.run(decision)
    assert [fence.cause for fence in driver.live.fences] == [FenceCause.NEWER_INSTANCE]


def test_no_state_is_kept_of_a_group_without_transactional_ids() -> None:
    groups = TransactionGroups()
    groups.replay(to_record("a", GroupAssignment("g", 1, frozenset({IN0}))))
    groups.forget("a")
    assert not groups._of_group
    assert not groups._newest


def test_the_record_of_an_id_that_has_moved_away_has_no_open_transaction() -> None:
    driver = GroupDriver()
    driver.begin(driver.member("a", 1, IN0), P0)
    driver.depart("a")
    driver.depart("a")
    driver.crash()
    dead = driver.live_of("a").metadata
    assert (dead.state, dead.start_ms, dead.partitions) == (State.DEAD, -1, frozenset())


def test_an_id_that_is_initialized_without_its_group_leaves_the_group() -> None:
    driver = GroupDriver()
    driver.join("a", 1, IN0)
    command = InitProducerId("a", 60_000)
    decision = driver.decide(
        decide_init_outside_group,
        driver.shard,
        command,
        wall_ms=1,
        new_producer_id=driver.new_producer_id,
    )
    assert driver.run(decision).value.code is ErrorCode.NONE
    assert not driver.shard.groups.memberships


def test_a_recreated_group_waits_for_a_participant_in_two_phase_commit() -> None:
    driver = GroupDriver()
    joined = driver.member("a", 57, IN0)
    driver.live_of("a").metadata = replace(driver.live_of("a").metadata, timeout_ms=NO_TIMEOUT_MS)
    driver.begin(joined, P0)
    for _ in range(2):
        decision = group_restart.decide_start_over(driver.shard, GROUP, None, wall_ms=1)
        assert driver.run(decision).value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        assert driver.state_of("a") is State.ONGOING


def test_one_decision_of_a_group_restart_changes_only_its_own_batch_of_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_restart, "AT_ONCE", 2)
    driver = GroupDriver()
    for name in ("a", "b", "c"):
        driver.member(name, 57)
    driver.run(group_restart.decide_start_over(driver.shard, GROUP, None, wall_ms=1))
    states = [driver.state_of(name) for name in ("a", "b", "c")]
    assert states == [State.DEAD, State.DEAD, State.EMPTY]


def test_an_id_created_at_time_0_stays_if_its_next_record_is_not_written() -> None:
    driver = Driver()
    driver.put(State.EMPTY, last_update_ms=0)
    driver.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert driver.init().value.code is ErrorCode.NOT_COORDINATOR
    assert driver.metadata.producer_id == 77
    assert driver.live.is_listed


def test_an_append_that_fails_leaves_nothing_in_memory() -> None:
    driver = Driver()
    driver.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    driver.init()
    assert not driver.shard._decided
    assert not driver.shard.transactions


def test_a_participant_in_two_phase_commit_has_the_maximum_timeout() -> None:
    driver = Driver()
    driver.init(two_phase=True)
    assert driver.metadata.timeout_ms == 0x7FFF_FFFF
