"""One EndTxn decides many transactions of a group: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, GroupedTransaction
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import P0, P1, P2
from tests.server.transaction.grouped.driver import GROUP, GroupDriver

NONE = ErrorCode.NONE
PARENT, A, B = "parent", "a", "b"


def opened(
    **settings: bool,
) -> tuple[GroupDriver, GroupedTransaction, GroupedTransaction, GroupedTransaction]:
    """Return a driver, and a parent and two members, each with an open transaction. `settings` are
    attributes of the driver."""
    driver = GroupDriver()
    parent, a, b = (driver.member(name, 1) for name in (PARENT, A, B))
    driver.begin(parent, P0, version=0)
    driver.begin(a, P1)
    driver.begin(b, P2)
    for name, value in settings.items():
        setattr(driver, name, value)
    return driver, parent, a, b


@pytest.mark.parametrize("committed", [True, False])
def test_one_batch_decides_the_parent_and_all_members(committed: bool) -> None:
    driver, parent, a, b = opened(finishes=False)
    response = driver.commit_group(parent, a, b, committed=committed)
    assert driver.last_batch == 3
    prepared = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    assert {driver.state_of(name) for name in (PARENT, A, B)} == {prepared}
    assert list(driver.shard.prepared) == [A, B, PARENT]
    assert not response.done
    for name in (A, B, PARENT):
        driver.finish(name)
    assert response.value.code is NONE
    assert [work.committed for work, _ in driver.markers] == [committed] * 3


def test_the_parent_keeps_its_epoch_and_each_member_gets_its_next_epoch() -> None:
    driver, parent, a, b = opened()
    driver.init(transactional_id="c")
    response = driver.commit_group(parent, a, b)
    assert response.value.producer_epoch == parent.producer_epoch
    for member in (a, b):
        live = driver.shard.get(member.transactional_id)
        assert live is not None
        assert live.metadata.producer_epoch == member.producer_epoch + 1
    assert (
        driver.end(*a[1:], True, transactional_id=A).value.code is NONE
    )  # the EndTxn of the member itself
    driver.begin(parent, P0, version=0)
    assert driver.state_of(PARENT) is State.ONGOING


def test_a_parent_that_sends_EndTxn_version_5_gets_its_next_epoch() -> None:
    driver, parent, a, b = opened()
    response = driver.commit_group(parent, a, b, bumps_epoch=True)
    assert (response.value.code, response.value.producer_epoch) == (NONE, parent.producer_epoch + 1)
    again = driver.commit_group(parent, a, b, bumps_epoch=True)
    assert again.value == response.value


@pytest.mark.parametrize(("version", "bumps"), [(0, 0), (1, 0), (2, 1)])
def test_a_member_gets_another_epoch_from_transaction_version_2_on(
    version: int, bumps: int
) -> None:
    driver = GroupDriver()
    parent, member = (driver.member(name, 1) for name in (PARENT, A))
    driver.begin(parent, P0, version=0)
    driver.begin(member, P1, version=version)
    assert driver.commit_group(parent, member).value.code is NONE
    live = driver.shard.get(A)
    assert live is not None
    assert live.metadata.producer_epoch == member.producer_epoch + bumps


# --- refusals


def no_such_id(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    return member._replace(transactional_id="unknown")


def never_in_the_group(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    result = driver.init(transactional_id="other").value
    driver.add(result.producer_id, result.producer_epoch, P0, transactional_id="other")
    return GroupedTransaction("other", result.producer_id, result.producer_epoch)


def of_another_group(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    result = driver.join("other", 1, group_id="h").value
    driver.add(result.producer_id, result.producer_epoch, P0, transactional_id="other")
    return GroupedTransaction("other", result.producer_id, result.producer_epoch)


def another_producer(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    return member._replace(producer_id=member.producer_id + 1)


def an_older_epoch(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    return member._replace(producer_epoch=member.producer_epoch - 1)


def a_later_epoch(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    return member._replace(producer_epoch=member.producer_epoch + 1)


def timed_out(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    live = driver.shard.get(member.transactional_id)
    assert live is not None
    live.deadline_ms = 0
    driver.abort_overdue()
    return member


def ended_by_itself(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    result = driver.end(
        *member[1:], True, transactional_id=member.transactional_id, bumps_epoch=False
    )
    assert result.value.code is NONE
    return member


def nothing_in_it(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    return driver.member("idle", 1)


def on_its_way(driver: GroupDriver, member: GroupedTransaction) -> GroupedTransaction:
    driver.holds_commits = True
    driver.begin(member, P0)
    return member


REFUSALS = [
    (no_such_id, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (never_in_the_group, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (of_another_group, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (another_producer, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (an_older_epoch, ErrorCode.PRODUCER_FENCED),
    (a_later_epoch, ErrorCode.PRODUCER_FENCED),
    (timed_out, ErrorCode.PRODUCER_FENCED),
    (ended_by_itself, ErrorCode.INVALID_TXN_STATE),
    (nothing_in_it, ErrorCode.INVALID_TXN_STATE),
    (on_its_way, ErrorCode.CONCURRENT_TRANSACTIONS),
]


@pytest.mark.parametrize(
    ("spoil", "code"), REFUSALS, ids=lambda spoil: getattr(spoil, "__name__", "")
)
def test_one_refused_member_leaves_all_undecided_and_is_named_in_the_result(
    spoil: Callable[[GroupDriver, GroupedTransaction], GroupedTransaction], code: ErrorCode
) -> None:
    driver, parent, a, b = opened()
    wrong = spoil(driver, b)
    records = len(driver.log)
    result = driver.commit_group(parent, a, wrong).value
    assert (result.code, result.refused_member) == (code, wrong.transactional_id)
    assert len(driver.log) == records
    assert driver.state_of(PARENT) is driver.state_of(A) is State.ONGOING


def test_a_member_of_an_older_generation_is_named_in_the_result() -> None:
    driver = GroupDriver()
    a = driver.member(A, 1)
    parent = driver.member(PARENT, 2)
    driver.begin(parent, P0)
    result = driver.commit_group(parent, a).value
    assert (result.code, result.refused_member) == (ErrorCode.ILLEGAL_GENERATION, A)


def test_the_parent_must_be_current_and_have_its_own_transaction() -> None:
    driver, parent, a, b = opened()
    older = parent._replace(producer_epoch=parent.producer_epoch - 1)
    assert driver.commit_group(older, a).value.code is ErrorCode.PRODUCER_FENCED
    unknown = parent._replace(transactional_id="unknown")
    assert driver.commit_group(unknown, a).value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    idle = driver.member("idle", 1)
    for committed in (True, False):
        for bumps_epoch in (True, False):
            result = driver.commit_group(idle, a, committed=committed, bumps_epoch=bumps_epoch)
            assert (result.value.code, result.value.refused_member) == (
                ErrorCode.INVALID_TXN_STATE, None,
            )  # fmt: skip
    elsewhere = driver.commit_group(parent, a, group_id="h").value
    assert elsewhere.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.commit_group(parent, a, b).value.code is NONE


def test_no_member_may_be_named_twice() -> None:
    driver, parent, a, _ = opened()
    for members in ((a, a), (a, parent), (a, a._replace(producer_epoch=9))):
        assert driver.commit_group(parent, *members).value.code is ErrorCode.INVALID_REQUEST


def test_more_members_than_a_batch_can_hold_are_refused_and_change_nothing() -> None:
    driver, parent, a, b = opened()
    driver.append_error = ErrorCode.MESSAGE_TOO_LARGE
    assert driver.commit_group(parent, a, b).value.code is ErrorCode.MESSAGE_TOO_LARGE
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.commit_group(parent, a, b).value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.append_error = None
    assert not driver.live_of(PARENT).waiting
    assert driver.commit_group(parent, a, b).value.code is NONE


def test_without_a_new_producer_id_no_member_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, parent, a, b = opened()
    live = driver.live_of(B)
    live.metadata = replace(live.metadata, producer_epoch=LAST_PRODUCER_EPOCH)

    def none_left(principal: str) -> int:
        raise LookupError

    monkeypatch.setattr(driver, "new_producer_id", none_left)
    with pytest.raises(LookupError):
        driver.commit_group(parent, a, b._replace(producer_epoch=LAST_PRODUCER_EPOCH))
    assert driver.live_of(A).pending is None
    assert driver.commit_group(parent, a).value.code is NONE


# --- retries


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_a_retry_succeeds_only_with_the_same_members(finished: bool, crashes: bool) -> None:
    driver, parent, a, b = opened(finishes=finished)
    driver.commit_group(parent, a, b)
    if crashes:
        driver.crash()
    for others in ((), (a,), (a, b._replace(producer_epoch=9))):
        result = driver.commit_group(parent, *others) if others else driver.end(
            *parent[1:], True, transactional_id=PARENT, bumps_epoch=False
        )  # fmt: skip
        assert result.value.code is ErrorCode.INVALID_TXN_STATE
    again = driver.commit_group(parent, b, a)
    if not finished:
        assert again.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        for name in (A, B, PARENT):
            driver.finish(name)
        again = driver.commit_group(parent, b, a)
    assert again.value.code is NONE
    opposite = driver.commit_group(parent, a, b, committed=False).value.code
    assert opposite is ErrorCode.INVALID_TXN_STATE


def test_after_an_end_without_members_a_retry_cannot_add_members() -> None:
    driver, parent, a, _ = opened()
    driver.end(*parent[1:], True, transactional_id=PARENT, bumps_epoch=False)
    assert driver.commit_group(parent, a).value.code is ErrorCode.INVALID_TXN_STATE


def test_the_next_transaction_of_the_parent_has_no_members() -> None:
    driver, parent, a, b = opened()
    driver.commit_group(parent, a, b)
    driver.begin(parent, P0, version=0)
    assert driver.live_of(PARENT).metadata.decided_members == ()
    end = driver.end(*parent[1:], True, transactional_id=PARENT, bumps_epoch=False)
    assert end.value.code is NONE


def test_after_a_crash_the_coordinator_completes_all_transactions_of_the_batch() -> None:
    driver, parent, a, b = opened(holds_commits=True, finishes=False)
    driver.commit_group(parent, a, b)
    driver.crash()
    driver.holds_commits = False
    assert list(driver.shard.prepared) == [A, B, PARENT]
    for name in driver.shard.prepared.copy():
        driver.finish(name)
    assert {driver.state_of(name) for name in (PARENT, A, B)} == {State.COMPLETE_COMMIT}
    assert driver.shard.groups.memberships[A].group_id == GROUP
