"""Several decisions as one record batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.transaction.grouped.together import decide_each, together
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult

X, Y, Z = (CoordinatorRecord(key, b"") for key in (b"x", b"y", b"z"))


def decision(
    heard: list[str], name: str, *records: CoordinatorRecord
) -> Decision[TransactionResult]:
    def failed(code: int) -> TransactionResult:
        heard.append(f"{name} failed")
        return TransactionResult(ErrorCode.NOT_COORDINATOR)

    return Decision(BUSY, records, on_failure=failed, on_committed=lambda: heard.append(name))


def test_all_records_go_in_one_batch_and_every_waiter_gets_the_result() -> None:
    heard: list[str] = []
    both = together([decision(heard, "a", X), decision(heard, "b", Y)], SUCCESS, also=(Z,))
    assert (both.records, both.response) == ((Z, X, Y), SUCCESS)
    assert both.on_committed is not None
    both.on_committed()
    assert heard == ["a", "b"]


def test_where_it_cannot_be_written_all_are_taken_back() -> None:
    heard: list[str] = []
    both = together([decision(heard, "a", X), decision(heard, "b", Y)], SUCCESS)
    assert both.on_failure is not None
    failed = both.on_failure(ErrorCode.KAFKA_STORAGE_ERROR)
    assert failed == TransactionResult(ErrorCode.NOT_COORDINATOR)
    assert heard == ["a failed", "b failed"]
    for code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        assert both.on_failure(code).code is ErrorCode.MESSAGE_TOO_LARGE


def test_where_one_cannot_be_made_the_others_are_taken_back() -> None:
    heard: list[str] = []

    def decisions() -> Iterator[Decision[TransactionResult]]:
        yield decision(heard, "a", X)
        yield Decision(BUSY)
        raise ValueError("no record of it")

    with pytest.raises(ValueError, match="no record"):
        decide_each(decisions(), beside=[decision(heard, "z", Z)])
    assert heard == ["z failed", "a failed"]


def test_a_decision_without_an_undo_is_accepted() -> None:
    alone = together([Decision(BUSY)], BUSY, also=(X,))
    assert alone.on_committed is not None
    assert alone.on_failure is not None
    alone.on_committed()
    assert alone.on_failure(1) == TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
