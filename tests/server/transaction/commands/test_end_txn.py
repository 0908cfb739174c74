"""EndTxn: retries, late calls, epochs that run out (KIP-890; scenarios R5-R7, Z18, E2-E7)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1, P2, Driver

LAST = LAST_PRODUCER_EPOCH
OK, FENCED, BUSY = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
RESTART = pytest.mark.parametrize("restart", [False, True], ids=["live", "after a restart"])


def begun(*, finishes: bool = True) -> tuple[Driver, tuple[int, int]]:
    driver = Driver(finishes=finishes)
    result = driver.init().value
    driver.add(result.producer_id, result.producer_epoch, P0, P1, P2)
    return driver, (result.producer_id, result.producer_epoch)


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "code"),
    [
        ("", 1_000, ErrorCode.INVALID_REQUEST),
        ("unknown", 1_000, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ID, 999, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["V1", "V2"])
def test_an_end_txn_with_a_wrong_transactional_id_or_producer_id_is_refused(
    transactional_id: str, producer_id: int, code: ErrorCode, bumps_epoch: bool
) -> None:
    driver, (_, epoch) = begun()
    response = driver.end(
        producer_id, epoch, True, transactional_id=transactional_id, bumps_epoch=bumps_epoch
    )
    assert response.value.code is code
    assert driver.state is State.ONGOING


@RESTART
@pytest.mark.parametrize("committed", [True, False])
def test_R5_a_repeated_end_txn_of_a_v1_client_gets_the_same_result(
    committed: bool, restart: bool
) -> None:
    driver, producer = begun(finishes=False)
    first = driver.end(*producer, committed, bumps_epoch=False)
    assert not first.done
    assert driver.end(*producer, committed, bumps_epoch=False).value.code is BUSY
    if restart:
        driver.crash()
    driver.finish(ID)
    records = len(driver.log)
    assert driver.end(*producer, committed, bumps_epoch=False).value.code is OK
    assert driver.end(*producer, not committed, bumps_epoch=False).value.code is INVALID
    assert len(driver.log) == records
    assert restart or first.value.code is OK


@RESTART
@pytest.mark.parametrize("committed", [True, False])
def test_R6_a_retry_after_a_lost_response_gets_the_same_response(
    committed: bool, restart: bool
) -> None:
    driver, (producer_id, epoch) = begun()
    first = driver.end(producer_id, epoch, committed).value
    assert (first.producer_id, first.producer_epoch) == (producer_id, epoch + 1)
    if restart:
        driver.crash()
    records = len(driver.log)
    assert driver.end(producer_id, epoch, committed).value == first
    assert len(driver.log) == records


def test_R6b_an_empty_abort_during_a_commit_is_busy_and_succeeds_after_it() -> None:
    driver, (producer_id, epoch) = begun(finishes=False)
    driver.end(producer_id, epoch, True)
    assert driver.end(producer_id, epoch + 1, False).value.code is BUSY
    driver.finish(ID)
    driver.end(producer_id, epoch + 1, False)
    driver.finish(ID)
    assert (driver.state, driver.metadata.producer_epoch) == (State.COMPLETE_ABORT, epoch + 2)
    assert {work.committed for work, _ in driver.markers} == {True}


@RESTART
@pytest.mark.parametrize("committed", [True, False])
def test_R7_an_end_txn_that_arrives_in_the_next_transaction_is_fenced(
    committed: bool, restart: bool
) -> None:
    driver, (producer_id, epoch) = begun()
    driver.end(producer_id, epoch, True)
    driver.add(producer_id, epoch + 1, P0)
    if restart:
        driver.crash()
    assert driver.end(producer_id, epoch, committed).value.code is FENCED
    assert driver.state is State.ONGOING


def test_Z18_an_end_txn_with_an_unassigned_higher_epoch_is_fenced() -> None:
    driver, (producer_id, epoch) = begun()
    assert driver.end(producer_id, epoch + 1, True).value.code is FENCED
    assert driver.state is State.ONGOING


@RESTART
def test_T4_a_producer_whose_transaction_timed_out_may_abort_and_continue(
    restart: bool,
) -> None:
    driver, (producer_id, epoch) = begun()
    driver.now_ms += 60_000
    assert driver.abort_overdue() == [ID]
    if restart:
        driver.crash()
    assert driver.end(producer_id, epoch, True).value.code is FENCED
    assert driver.end(producer_id, epoch, True, bumps_epoch=False).value.code is FENCED
    aborted = driver.end(producer_id, epoch, False).value
    assert (aborted.code, aborted.producer_epoch) == (OK, epoch + 1)
    assert {work.committed for work, _ in driver.markers} == {False}


def test_an_end_txn_of_a_fenced_epoch_is_refused_and_is_no_retry() -> None:
    driver, (producer_id, epoch) = begun()
    driver.init()  # a newer instance: it aborts the open transaction
    assert driver.state is State.COMPLETE_ABORT
    for committed in (True, False):
        assert driver.end(producer_id, epoch, committed).value.code is FENCED


@RESTART
@pytest.mark.parametrize("committed", [True, False])
def test_E2_E3_E4_an_end_txn_at_the_last_epoch_assigns_one_new_producer_id(
    committed: bool, restart: bool
) -> None:
    driver = Driver(finishes=False)
    driver.put(State.ONGOING, producer_epoch=LAST, last_producer_epoch=LAST - 1)
    first = driver.end(77, LAST, committed)
    assert driver.metadata.next_producer_id == 1_000
    if restart:
        driver.crash()  # between PREPARE and COMPLETE
    assert driver.end(77, LAST, committed).value.code is BUSY
    driver.finish(ID)
    assert {(work.producer_id, work.producer_epoch) for work, _ in driver.markers} == {(77, 32767)}
    for _ in range(2):
        again = driver.end(77, LAST, committed).value
        assert (again.code, again.producer_id, again.producer_epoch) == (OK, 1_000, 0)
        driver.crash()
    assert restart or first.value == again
    assert driver.next_producer_id == 1_001
    assert driver.add(1_000, 0, P0).value.code is OK
    assert (
        driver.end(77, LAST, committed).value.code is FENCED
    )  # R7, after a change of the producer id


@pytest.mark.parametrize("named", [True, False], ids=["same instance", "new instance"])
def test_E6_E7_a_timeout_at_the_last_epoch_assigns_a_new_producer_id(named: bool) -> None:
    """The producer gets a new producer id. A retried EndTxn gets the same new id (KAFKA-20090)."""
    driver = Driver()
    driver.put(State.ONGOING, producer_epoch=LAST, last_producer_epoch=LAST - 1)
    driver.now_ms += 60_000
    assert driver.abort_overdue() == [ID]
    assert (driver.state, driver.metadata.producer_epoch) == (State.COMPLETE_ABORT, 0)
    assert {(work.producer_id, work.producer_epoch) for work, _ in driver.markers} == {(77, 32767)}
    driver.crash()
    assert driver.end(77, LAST, True).value.code is FENCED
    response = driver.end(77, LAST, False).value
    assert (response.code, response.producer_id, response.producer_epoch) == (OK, 1_000, 0)
    assert driver.end(77, LAST, False, bumps_epoch=False).value.code is UNKNOWN
    result = (driver.init(77, LAST) if named else driver.init()).value
    assert (result.code, result.producer_id) == (OK, 1_000)
    assert result.producer_epoch == (0 if named else 1)
    if named:
        assert driver.init(77, LAST).value == result


def test_E6_E7_a_timeout_without_a_free_producer_id_aborts_the_transaction() -> None:
    """The producer gets its new producer id later, with InitProducerId."""
    driver = Driver()
    driver.put(State.ONGOING, producer_epoch=LAST)
    driver.now_ms += 60_000
    driver.has_ids = False
    assert driver.abort_overdue() == [ID]
    assert (driver.state, driver.metadata.producer_epoch) == (State.COMPLETE_ABORT, 32767)
    driver.has_ids = True
    for committed in (True, False):
        assert driver.end(77, LAST, committed).value.code is FENCED
    result = driver.init(77, LAST).value
    assert (result.code, result.producer_id, result.producer_epoch) == (OK, 1_000, 0)
    assert driver.init(77, LAST).value == result


@pytest.mark.parametrize("state", [State.COMPLETE_ABORT, State.ONGOING])
def test_E6_the_epoch_that_only_markers_carry_belongs_to_no_producer(state: State) -> None:
    driver = Driver()
    driver.put(state, producer_epoch=32767, last_producer_epoch=-1)
    before = driver.metadata
    for bumps_epoch in (True, False):
        assert driver.end(77, 32767, False, bumps_epoch=bumps_epoch).value.code is FENCED
    assert driver.add(77, 32767, P1).value.code is FENCED
    assert driver.init(77, 32767).value.code is FENCED
    assert driver.metadata == before
    assert driver.live.pending is None


def test_I5_after_a_crash_every_partition_gets_the_decided_marker() -> None:
    driver, producer = begun(finishes=False)
    driver.end(*producer, False)
    driver.write_markers(ID, at_most=1)
    assert driver.complete(ID) is None
    driver.crash()  # the next coordinator does not know of the marker and writes it again (C-B)
    driver.finish(ID)
    assert [partition for _, partition in driver.markers] == [P0, P0, P1, P2]
    assert {work.committed for work, _ in driver.markers} == {False}


def test_M12_only_the_missing_markers_are_retried() -> None:
    driver, producer = begun(finishes=False)
    driver.end(*producer, True)
    driver.write_markers(ID, at_most=2)
    work = driver.shard.marker_work(ID)
    assert work is not None
    assert work.partitions == (P2,)


def test_a_marker_of_an_earlier_transaction_does_not_count_for_this_one() -> None:
    driver, (producer_id, epoch) = begun(finishes=False)
    driver.end(producer_id, epoch, True)
    old = driver.shard.marker_work(ID)
    assert old is not None
    driver.finish(ID)
    driver.add(producer_id, epoch + 1, P0)
    driver.end(producer_id, epoch + 1, True)
    driver.shard.marker_written(old, P0)
    assert driver.live.markers_left == {P0}


def test_an_end_of_an_older_client_bumps_no_epoch() -> None:
    driver, (producer_id, epoch) = begun()
    driver.end(producer_id, epoch, True, bumps_epoch=False)
    assert (driver.metadata.producer_epoch, driver.metadata.producer_id) == (epoch, producer_id)
    (work, _) = driver.markers[0]
    assert (work.producer_epoch, work.transaction_version) == (epoch, 0)
    assert driver.add(producer_id, epoch, P0).value.code is OK


def test_a_waiting_request_gets_not_coordinator_when_the_shard_moves() -> None:
    driver, producer = begun(finishes=False)
    response = driver.end(*producer, True)
    driver.shard.on_unloaded()
    assert response.value.code is ErrorCode.NOT_COORDINATOR


def test_D2_an_end_txn_that_cannot_be_written_leaves_the_transaction_open() -> None:
    driver, producer = begun()
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.end(*producer, True).value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (driver.state, driver.live.pending, driver.live.waiting) == (State.ONGOING, None, [])
    assert driver.markers == []
    driver.append_error = None
    assert driver.end(*producer, False).value.code is OK
    assert driver.state is State.COMPLETE_ABORT
