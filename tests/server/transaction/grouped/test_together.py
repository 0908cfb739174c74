"""`together` joins several decisions of the transaction coordinator into one record batch."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.transaction.effects import RefusalCounted, WriteMarkers
from oncelog_server.transaction.fences import FenceCause
from oncelog_server.transaction.grouped.together import together
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult

X, Y, Z = (CoordinatorRecord(key, b"") for key in (b"x", b"y", b"z"))
FIRST, SECOND, OWN = (
    RefusalCounted(cause)
    for cause in (FenceCause.TIMED_OUT, FenceCause.OPERATOR, FenceCause.LEFT_GROUP)
)


def decision(
    effect: RefusalCounted, name: str, *records: CoordinatorRecord
) -> Decision[TransactionResult]:
    return Decision(
        BUSY,
        records,
        effects=(WriteMarkers((name,)), effect),
        failed=lambda code: TransactionResult(ErrorCode.NOT_COORDINATOR, refused_member=name),
    )


def test_all_records_go_in_one_batch_and_markers_follow_all_other_effects() -> None:
    both = together(
        [decision(FIRST, "a", X), decision(SECOND, "b", Y)], SUCCESS, also=(Z,), effects=(OWN,)
    )
    assert (both.records, both.response) == ((Z, X, Y), SUCCESS)
    assert both.effects == (OWN, FIRST, SECOND, WriteMarkers(("a", "b")))


def test_if_the_append_fails_the_last_decision_responds_unless_the_batch_is_too_large() -> None:
    both = together([decision(FIRST, "a", X), decision(SECOND, "b", Y), Decision(BUSY)], SUCCESS)
    assert both.failed is not None
    failed = both.failed(ErrorCode.KAFKA_STORAGE_ERROR)
    assert failed == TransactionResult(ErrorCode.NOT_COORDINATOR, refused_member="b")
    for code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        assert both.failed(code).code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_failed_append_without_records_of_decisions_gets_coordinator_not_available() -> None:
    alone = together([Decision(BUSY)], BUSY, also=(X,))
    assert alone.effects == ()
    assert alone.failed is not None
    assert alone.failed(1) == TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
