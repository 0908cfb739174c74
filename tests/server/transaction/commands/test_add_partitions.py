"""AddPartitionsToTxn responds once its record is committed, and appends no record for a repeated
request."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1, P2, Driver

OK, FENCED, BUSY = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS


def begun(*, finishes: bool = True) -> tuple[Driver, tuple[int, int]]:
    driver = Driver(finishes=finishes)
    result = driver.init().value
    return driver, (result.producer_id, result.producer_epoch)


def test_R13_adding_partitions_that_are_in_the_transaction_appends_nothing() -> None:
    driver, producer = begun()
    driver.add(*producer, P0, P1)
    records = len(driver.log)
    assert driver.add(*producer, P1).value.code is OK
    assert len(driver.log) == records
    driver.add(*producer, P1, P2)
    assert len(driver.log) == records + 1
    assert driver.metadata.partitions == {P0, P1, P2}


def test_nothing_is_acknowledged_before_it_is_committed() -> None:
    driver, producer = begun()
    driver.holds_commits = True
    first = driver.add(*producer, P0)
    assert driver.add(*producer, P0).value.code is BUSY
    assert not first.done
    driver.release()
    assert first.value.code is OK


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        ("", 1_000, 0, ErrorCode.INVALID_REQUEST),
        ("unknown", 1_000, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ID, 999, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ID, 1_000, 1, FENCED),
        (ID, 1_000, -1, FENCED),
    ],
)
def test_Z4_Z16_a_producer_that_does_not_own_the_id_is_refused(
    transactional_id: str, producer_id: int, epoch: int, code: ErrorCode
) -> None:
    driver, _ = begun()
    records = len(driver.log)
    response = driver.add(producer_id, epoch, P0, transactional_id=transactional_id)
    assert response.value.code is code
    assert (len(driver.log), driver.state) == (records, State.EMPTY)


def test_R9_add_partitions_to_txn_after_the_end_of_its_transaction_is_fenced() -> None:
    driver, (producer_id, epoch) = begun()
    driver.add(producer_id, epoch, P0)
    driver.end(producer_id, epoch, True)
    assert driver.add(producer_id, epoch, P1).value.code is FENCED
    assert driver.state is State.COMPLETE_COMMIT


def test_verification_returns_the_partitions_in_the_transaction_and_adds_nothing() -> None:
    driver, producer = begun()
    driver.add(*producer, P0)
    assert driver.add(*producer, P0, verify_only=True).value.code is OK
    missing = driver.add(*producer, P0, P1, verify_only=True).value.code
    assert missing is ErrorCode.TRANSACTION_ABORTABLE
    assert driver.metadata.partitions == {P0}
    driver.end(*producer, True)
    late = driver.add(producer[0], producer[1] + 1, P0, verify_only=True).value.code
    assert late is ErrorCode.TRANSACTION_ABORTABLE


def test_a_failed_append_adds_no_partition_and_starts_no_timeout() -> None:
    driver, producer = begun()
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.add(*producer, P0).value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state is State.EMPTY
    driver.now_ms += 60_000
    assert driver.abort_overdue() == []
    driver.append_error = None
    assert driver.add(*producer, P0).value.code is OK


def test_the_next_transaction_begins_with_its_own_partitions_and_time() -> None:
    driver, (producer_id, epoch) = begun()
    driver.add(producer_id, epoch, P0, P1)
    driver.end(producer_id, epoch, False)
    driver.now_ms += 50_000
    driver.add(producer_id, epoch + 1, P2)
    assert driver.metadata.partitions == {P2}
    assert driver.metadata.start_ms == driver.wall_ms
    assert driver.live.deadline_ms == driver.now_ms + 60_000
