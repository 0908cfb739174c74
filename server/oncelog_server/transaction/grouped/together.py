"""Joins several decisions into one record batch. All of the decisions take effect, or none does."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision, Effect, Park
from oncelog_server.transaction.effects import WriteMarkers
from oncelog_server.transaction.results import TransactionResult

TOO_LARGE = TransactionResult(ErrorCode.MESSAGE_TOO_LARGE)
_UNAVAILABLE = TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_TOO_LARGE_CODES = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def together(
    decisions: Sequence[Decision[TransactionResult]],
    response: TransactionResult | Park,
    *,
    also: tuple[CoordinatorRecord, ...] = (),
    effects: tuple[Effect, ...] = (),
) -> Decision[TransactionResult]:
    """Return one decision with the records of `also`, then the records of `decisions`. The decision
    has all effects. Its last effect writes the markers of all transactions, in the order of their
    decisions. The response is `response`, or MESSAGE_TOO_LARGE if the append fails because the
    batch is too large."""
    failures = (decision.failed for decision in reversed(decisions))
    last = next((failed for failed in failures if failed is not None), None)

    def failed(code: int) -> TransactionResult:
        if code in _TOO_LARGE_CODES:
            return TOO_LARGE
        return _UNAVAILABLE if last is None else last(code)

    records = [*also]
    others: list[Effect] = []
    owed: list[str] = []
    for decision in decisions:
        records += decision.records
        for effect in decision.effects:
            if isinstance(effect, WriteMarkers):
                owed += effect.transactional_ids
            else:
                others.append(effect)
    markers = (WriteMarkers(tuple(owed)),) if owed else ()
    return Decision(response, tuple(records), effects=(*effects, *others, *markers), failed=failed)
