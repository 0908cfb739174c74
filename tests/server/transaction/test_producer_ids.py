"""Producer ids come from blocks. The broker assigns each id once, and requests the next block
before the current block is used up (E9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.transaction.producer_ids import LOW_WATER, ProducerIds
from oncelog_server.transaction.results import TransactionResult
from tests.server.transaction.world import value_of


def test_ids_come_once_and_in_order_across_blocks() -> None:
    ids = ProducerIds(lambda principal: None)
    ids.add(range(3))
    ids.add(range(1_000, 1_002))
    assert len(ids) == 5
    assert [ids.take() for _ in range(5)] == [0, 1, 2, 1_000, 1_001]


def test_the_next_block_is_requested_once_and_in_time() -> None:
    asked: list[str] = []
    ids = ProducerIds(asked.append)
    ids.add(range(LOW_WATER + 2))
    ids.take()
    ids.take()
    assert not asked
    ids.take()
    ids.take()
    assert len(asked) == 1


def test_E9_without_producer_ids_the_error_is_retriable_and_a_new_block_is_requested() -> None:
    asked: list[str] = []
    ids = ProducerIds(asked.append)
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            ids.take()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(asked) == 1
    ids.failed()
    with pytest.raises(Refused):
        ids.take()
    assert len(asked) == 2
    ids.add(range(7, 9))
    assert ids.take() == 7


def test_ids_of_earlier_brokers_are_known_before_the_first_block() -> None:
    """The disk of the metadata store may be full at a start, and then the first block comes
    late."""
    ids = ProducerIds(lambda principal: None)
    ids.start_at(2_000)
    assert ids.is_given(1_999)
    assert not ids.is_given(2_000)
    ids.add(range(2_000, 3_000))
    assert not ids.is_given(2_000)
    assert ids.take() == 2_000
    assert ids.is_given(2_000)


# --- the ids of a principal

ALICE, BOB = "User:alice", "User:bob"


def test_h49_each_principal_has_blocks_of_its_own() -> None:
    asked: list[str] = []
    ids = ProducerIds(asked.append)
    ids.add(range(1_000))
    ids.add(range(1_000, 2_000), ALICE)
    ids.add(range(2_000, 3_000), BOB)
    assert [ids.take(principal) for principal in (ALICE, BOB, "", ALICE)] == [
        1_000,
        2_000,
        0,
        1_001,
    ]
    for _ in range(2 * (1_000 - LOW_WATER)):
        ids.take(ALICE)
        if asked:
            break
    assert asked == [ALICE]
    assert len(ids) == 999


def test_h49_an_unassigned_id_of_a_principal_is_known_as_such() -> None:
    ids = ProducerIds(lambda principal: None)
    ids.start_at(150)
    ids.add(range(150, 1_150))
    ids.add(range(2_000, 3_000), ALICE)
    ids.take(ALICE)
    ids.take()
    given = {149: True, 150: True, 151: False, 1_149: False, 2_000: True, 2_001: False}
    # 1,150 is in no present block, because a principal's block begins at a multiple of the block
    # size.
    given |= {1_150: True, 2_999: False, 3_000: False, -1: True}
    assert {producer_id: ids.is_given(producer_id) for producer_id in given} == given
    for _ in range(999):
        ids.take(ALICE)
    assert ids.is_given(2_999)


def use(ids: ProducerIds, principal: str) -> Callable[[], TransactionResult]:
    return lambda: TransactionResult(ErrorCode.NONE, ids.take(principal), 0)


def test_h49_the_first_requests_of_a_principal_wait_for_its_block() -> None:
    asked: list[str] = []
    ids = ProducerIds(asked.append)
    answers = [ids.when_available(ALICE, use(ids, ALICE)) for _ in range(3)]
    assert asked == [ALICE]
    ids.add(range(5_000, 6_000), BOB)
    assert not any(isinstance(answer, Deferred) and answer.done for answer in answers)
    ids.add(range(6_000, 7_000), ALICE)
    assert [value_of(answer).producer_id for answer in answers] == [6_000, 6_001, 6_002]
    assert ids.when_available(ALICE, use(ids, ALICE)) == TransactionResult(ErrorCode.NONE, 6_003, 0)


def test_h49_requests_that_wait_for_a_block_end_if_there_is_none() -> None:
    """The disk of the metadata store is full, for example. Clients retry the code."""
    asked: list[str] = []
    ids = ProducerIds(asked.append)
    answers = [ids.when_available(ALICE, use(ids, ALICE)) for _ in range(2)]
    ids.failed(ALICE)
    loading = TransactionResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert [value_of(answer) for answer in answers] == [loading, loading]
    assert asked == [ALICE, ALICE]


def test_a_request_of_an_anonymous_client_does_not_wait() -> None:
    ids = ProducerIds(lambda principal: None)
    with pytest.raises(Refused):
        ids.when_available("", use(ids, ""))
