"""InitProducerId: the current producer of a transactional id (KIP-360), fencing, epochs that run
out."""

from __future__ import annotations

import struct

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
)
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, TransactionMetadata
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, Driver

OK, FENCED, BUSY = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
LAST = LAST_PRODUCER_EPOCH


def ids(result: TransactionResult) -> tuple[int, int]:
    assert result.code is OK
    return result.producer_id, result.producer_epoch


def test_a_new_id_gets_a_new_producer_id_and_epoch_0() -> None:
    driver = Driver()
    assert ids(driver.init().value) == (1_000, 0)
    assert ids(driver.init(transactional_id="another").value) == (1_001, 0)


@pytest.mark.parametrize("restart", [False, True], ids=["live", "after a restart"])
def test_Z9_a_producer_may_bump_its_epoch_and_repeat_only_the_last_bump(restart: bool) -> None:
    driver = Driver()
    producer_id, epoch = ids(driver.init().value)
    assert ids(driver.init(producer_id, epoch).value) == (producer_id, epoch + 1)
    if restart:
        driver.crash()
    assert ids(driver.init(producer_id, epoch).value) == (producer_id, epoch + 1)  # R14
    assert ids(driver.init(producer_id, epoch + 1).value) == (producer_id, epoch + 2)
    for other in ((producer_id, epoch), (producer_id, epoch + 3), (producer_id + 1, epoch + 2)):
        assert driver.init(*other).value.code is FENCED
    assert driver.metadata.producer_epoch == epoch + 2


def test_a_transactional_id_that_is_too_long_leaves_no_state() -> None:
    driver = Driver()
    with pytest.raises(struct.error):
        driver.init(transactional_id="t" * 0x8000)
    assert not driver.shard.transactions
    assert ids(driver.init(transactional_id="t" * 0x7FFF).value)[1] == 0


@pytest.mark.parametrize("half", [(7, -1), (-1, 0)])
def test_Z10_a_producer_id_without_an_epoch_or_the_reverse_is_refused(
    half: tuple[int, int],
) -> None:
    driver = Driver()
    assert driver.init(*half).value.code is ErrorCode.INVALID_REQUEST
    assert not driver.log
    assert not driver.shard.transactions


def test_an_empty_id_is_refused() -> None:
    assert Driver().init(transactional_id="").value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [900_001, 0, -1, 2**31 - 1])
def test_T2_a_transaction_timeout_out_of_bounds_leaves_no_state(timeout_ms: int) -> None:
    driver = Driver()
    code = driver.init(timeout_ms=timeout_ms).value.code
    assert code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not driver.shard.transactions


def test_a_fenced_instance_cannot_fence_the_newer_instance() -> None:
    driver = Driver()
    old = ids(driver.init().value)
    new = ids(driver.init().value)
    assert new == (old[0], old[1] + 1)
    assert driver.init(*old).value.code is FENCED
    assert ids(driver.init(*new).value) == (old[0], old[1] + 2)


def test_X2_a_producer_of_an_unknown_transactional_id_gets_a_new_producer_id() -> None:
    driver = Driver()
    assert ids(driver.init(5, 17).value) == (1_000, 0)


def test_a_zombie_does_not_abort_the_current_producers_transaction() -> None:
    driver = Driver()
    zombie = ids(driver.init().value)
    current = ids(driver.init().value)
    driver.add(*current, P0)
    assert driver.init(*zombie).value.code is FENCED
    assert driver.state is State.ONGOING


def test_a_late_bump_with_an_older_epoch_does_not_abort_the_producers_transaction() -> None:
    driver = Driver()
    first = ids(driver.init().value)
    current = ids(driver.init(*first).value)
    driver.add(*current, P0)
    assert driver.init(*first).value.code is FENCED
    assert driver.state is State.ONGOING


def test_a_producer_that_aborts_its_transaction_by_a_bump_gets_the_next_epoch() -> None:
    driver = Driver()
    producer = ids(driver.init().value)
    driver.add(*producer, P0)
    assert driver.init(*producer).value.code is BUSY
    assert driver.state is State.COMPLETE_ABORT
    assert ids(driver.init(*producer).value) == (producer[0], producer[1] + 1)


def test_Z6_a_fencing_that_cannot_be_written_uses_up_no_epoch() -> None:
    driver = Driver()
    producer = ids(driver.init().value)
    driver.add(*producer, P0)
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(50):
        assert driver.init().value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.append_error = None
    assert driver.init().value.code is BUSY
    assert ids(driver.init().value) == (producer[0], producer[1] + 2)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_codes_if_the_producers_record_cannot_be_written(
    code: ErrorCode, expected: ErrorCode
) -> None:
    driver = Driver(append_error=code)
    assert driver.init().value.code is expected
    assert not driver.shard.transactions, "an id exists only after its first record is written"


def test_E1_E5_a_producer_at_the_last_epoch_gets_one_new_producer_id() -> None:
    driver = Driver()
    driver.put(State.EMPTY, producer_epoch=LAST, last_producer_epoch=-1)
    assert ids(driver.init(77, LAST).value) == (1_000, 0)
    assert ids(driver.init(77, LAST).value) == (1_000, 0)
    driver.crash()
    assert ids(driver.init(77, LAST).value) == (1_000, 0)
    assert driver.add(77, LAST, P0).value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.init(1_000, LAST).value.code is FENCED
    assert ids(driver.init(1_000, 0).value) == (1_000, 1)
    assert driver.init(77, LAST).value.code is FENCED


@pytest.mark.parametrize("restart", [False, True], ids=["live", "after a restart"])
@pytest.mark.parametrize("epoch", [LAST - 2, LAST - 1, LAST])
def test_R14_a_repeated_init_producer_id_after_a_timeout_gets_the_same_response(
    epoch: int, restart: bool
) -> None:
    """At the last epoch, the response has a new producer id, the same each time (B10)."""
    driver = Driver()
    driver.put(State.EMPTY, producer_epoch=epoch, last_producer_epoch=-1)
    assert driver.add(77, epoch, P0).value.code is OK
    driver.now_ms += driver.metadata.timeout_ms + 1
    assert driver.abort_overdue() == [ID]
    driver.finish(ID)
    expected = ids(driver.init(77, epoch).value)
    assert expected == ((1_000, 0) if epoch == LAST else (77, epoch + 1))
    if restart:
        driver.crash()
    assert ids(driver.init(77, epoch).value) == expected
    assert ids(driver.init(77, epoch).value) == expected


def test_R14_a_repeated_bump_to_the_last_epoch_gets_the_same_epoch() -> None:
    driver = Driver()
    driver.put(State.EMPTY, producer_epoch=LAST - 1, last_producer_epoch=-1)
    assert ids(driver.init(77, LAST - 1).value) == (77, LAST)
    assert ids(driver.init(77, LAST - 1).value) == (77, LAST)
    assert ids(driver.init(77, LAST).value) == (1_000, 0)
    assert driver.init(77, LAST - 1).value.code is FENCED


def test_E1_a_new_instance_at_the_last_epoch_fences_the_old_one() -> None:
    driver = Driver()
    driver.put(State.COMPLETE_COMMIT, producer_epoch=LAST)
    assert ids(driver.init().value) == (1_000, 0)
    assert driver.init(77, LAST).value.code is FENCED


def test_E10_the_producer_id_before_the_last_one_stays_fenced() -> None:
    driver = Driver()
    driver.put(State.EMPTY, previous_producer_id=76, producer_epoch=LAST, last_producer_epoch=-1)
    assert driver.init(76, LAST).value.code is FENCED
    assert driver.metadata.producer_id == 77


def test_E9_an_init_producer_id_without_a_free_producer_id_leaves_no_state() -> None:
    driver = Driver()

    def none_left() -> int:
        raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    with pytest.raises(Refused):
        decide_init_producer_id(
            driver.shard, InitProducerId(ID, 1_000), wall_ms=0, new_producer_id=none_left
        )
    assert not driver.shard.transactions


def test_the_record_of_an_id_has_its_whole_state() -> None:
    driver = Driver()
    producer = ids(driver.init().value)
    driver.add(*producer, P0)
    before = driver.metadata
    driver.crash()
    assert driver.metadata == before
    assert isinstance(before, TransactionMetadata)
