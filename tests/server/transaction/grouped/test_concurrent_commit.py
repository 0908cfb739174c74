"""Two producers commit offsets of the same input partition. The coordinator aborts the older
producer's transaction if it is still open (KIP-447, early draft)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.commands.end_txn import EndTxn, decide_end_txn
from oncelog_server.transaction.grouped.concurrent_commit import (
    decide_concurrent_commit,
    transactions_of,
)
from oncelog_server.transaction.metadata import NO_TIMEOUT_MS, GroupedTransaction
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import P0, P1
from tests.server.transaction.grouped.driver import GROUP, GroupDriver

OURS = ErrorCode.CONCURRENT_PRODUCER_COMMIT


def opened() -> tuple[GroupDriver, GroupedTransaction]:
    driver = GroupDriver(finishes=False)
    result = driver.init(transactional_id="older").value
    older = GroupedTransaction("older", result.producer_id, result.producer_epoch)
    driver.begin(older, P0)
    return driver, older


def meet(driver: GroupDriver, older: GroupedTransaction) -> ErrorCode | None:
    """Abort the older producer's open transaction, as an offset commit of a newer producer does.
    Return the error code for the newer producer, or None if no transaction is open."""
    found = transactions_of(driver.shard, {older.producer_id})
    if not found:
        return None
    decision = driver.decide(
        decide_concurrent_commit,
        found[0],
        None,
        wall_ms=driver.wall_ms,
        new_producer_id=driver.new_producer_id,
    )
    return driver.run(decision).value.code


def test_the_older_transaction_is_aborted_and_the_newer_one_continues() -> None:
    driver, older = opened()
    assert meet(driver, older) is ErrorCode.NONE
    assert driver.state_of("older") is State.PREPARE_ABORT
    # A retry before the markers are written appends no record.
    records = len(driver.log)
    assert meet(driver, older) is ErrorCode.NONE
    assert len(driver.log) == records
    driver.finish("older")
    assert meet(driver, older) is None


@pytest.mark.parametrize(("group_id", "code"), [(None, ErrorCode.PRODUCER_FENCED), (GROUP, OURS)])
def test_the_older_producer_gets_PRODUCER_FENCED_or_in_a_group_CONCURRENT_PRODUCER_COMMIT(
    group_id: str | None, code: ErrorCode
) -> None:
    driver, older = opened()
    meet(driver, older)
    driver.finish("older")
    ended = decide_end_txn(
        driver.shard,
        EndTxn(*older, True, True, group_id=group_id),
        wall_ms=driver.wall_ms,
        new_producer_id=driver.new_producer_id,
    )
    assert isinstance(ended.response, TransactionResult)
    assert ended.response.code is code


def test_the_older_producer_can_initialize_again_with_its_old_epoch() -> None:
    driver, older = opened()
    meet(driver, older)
    driver.finish("older")
    again = driver.init(*older[1:], transactional_id="older").value
    assert (again.code, again.producer_epoch) == (ErrorCode.NONE, older.producer_epoch + 1)


def test_the_newer_producer_is_refused_if_the_older_producer_has_committed() -> None:
    driver, older = opened()
    driver.end(*older[1:], True, transactional_id="older")
    assert meet(driver, older) is OURS
    assert driver.state_of("older") is State.PREPARE_COMMIT


def test_the_newer_producer_is_refused_while_the_older_producers_commit_is_pending() -> None:
    driver, older = opened()
    driver.holds_commits = True
    driver.end(*older[1:], True, transactional_id="older")
    assert meet(driver, older) is OURS


def test_the_newer_producer_retries_while_the_older_producer_is_adding_a_partition() -> None:
    driver, older = opened()
    driver.holds_commits = True
    driver.begin(older, P1)
    assert meet(driver, older) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_participant_in_two_phase_commit_is_not_aborted() -> None:
    driver, older = opened()
    live = driver.live_of("older")
    live.metadata = replace(live.metadata, timeout_ms=NO_TIMEOUT_MS)
    assert meet(driver, older) is OURS
    assert driver.state_of("older") is State.ONGOING
