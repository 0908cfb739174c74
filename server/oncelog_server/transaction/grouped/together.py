"""Several decisions as one record batch: all of them are taken, or none is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.results import TransactionResult

TOO_LARGE = TransactionResult(ErrorCode.MESSAGE_TOO_LARGE)


def decide_each(
    decisions: Iterable[Decision[TransactionResult]],
    *,
    beside: Sequence[Decision[TransactionResult]] = (),
) -> list[Decision[TransactionResult]]:
    """As a list. If one of them cannot be made, because there is no record of it, it is as if none
    had been, nor those `beside` them: otherwise their ids would stay busy for ever."""
    made: list[Decision[TransactionResult]] = []
    try:
        made += decisions
    except BaseException:
        for one in (*beside, *made):
            if one.on_failure is not None:
                one.on_failure(ErrorCode.UNKNOWN_SERVER_ERROR)
        raise
    return made


def together(
    decisions: Sequence[Decision[TransactionResult]],
    response: TransactionResult | Deferred[TransactionResult],
    *,
    also: tuple[CoordinatorRecord, ...] = (),
) -> Decision[TransactionResult]:
    """`also`: records that nobody has to be told of, before the others. Where the batch cannot be
    appended, the answer is MESSAGE_TOO_LARGE if that is why, else what the last decision says."""

    def on_failure(code: int) -> TransactionResult:
        result = TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for decision in decisions:
            if decision.on_failure is not None:
                result = decision.on_failure(code)
        too_large = code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        return TOO_LARGE if too_large else result

    def on_committed() -> None:
        for decision in decisions:
            if decision.on_committed is not None:
                decision.on_committed()

    records = tuple(record for decision in decisions for record in decision.records)
    return Decision(response, (*also, *records), on_failure=on_failure, on_committed=on_committed)
