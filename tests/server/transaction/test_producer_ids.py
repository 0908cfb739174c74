"""Producer ids come from blocks. The broker assigns each id once, and requests the next block
before the current block is used up (E9)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.transaction.producer_ids import LOW_WATER, ProducerIds


def test_ids_come_once_and_in_order_across_blocks() -> None:
    ids = ProducerIds(lambda: None)
    ids.add(range(3))
    ids.add(range(1_000, 1_002))
    assert len(ids) == 5
    assert [ids.take() for _ in range(5)] == [0, 1, 2, 1_000, 1_001]


def test_the_next_block_is_requested_once_and_in_time() -> None:
    asked: list[None] = []
    ids = ProducerIds(lambda: asked.append(None))
    ids.add(range(LOW_WATER + 2))
    ids.take()
    ids.take()
    assert not asked
    ids.take()
    ids.take()
    assert len(asked) == 1


def test_E9_without_producer_ids_the_error_is_retriable_and_a_new_block_is_requested() -> None:
    asked: list[None] = []
    ids = ProducerIds(lambda: asked.append(None))
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
    ids = ProducerIds(lambda: None)
    ids.start_at(2_000)
    assert ids.is_given(1_999)
    assert not ids.is_given(2_000)
    ids.add(range(2_000, 3_000))
    assert not ids.is_given(2_000)
    assert ids.take() == 2_000
    assert ids.is_given(2_000)
