"""What the log of events says of producers that were cut off: one line for an abort against a
producer's will, one for the first request that is refused for it; never one per request. And of
what a transaction coordinator passed over in its log, and of producer ids over a limit."""

from __future__ import annotations

from typing import Any

import structlog

from oncelog_server.transaction.fences import Fence, Fences
from oncelog_server.transaction.producer_id_quota import Refusal

log = structlog.get_logger("oncelog.transactions")


def logged_fences() -> Fences:
    """Fences whose events are logged."""
    return Fences(
        on_aborted=lambda fence: log.warning("transaction aborted", **_of(fence)),
        on_refused=lambda fence: log.warning("producer refused", **_of(fence)),
    )


def tell_stray_markers(index: int, count: int) -> None:
    """Of one partition of `__transaction_state`, when it is loaded."""
    log.warning("markers in the transaction log passed over", partition=index, markers=count)


def tell_refused_id(refusal: Refusal) -> None:
    """The client is told POLICY_VIOLATION: InitProducerId has no room for a text."""
    log.warning(
        "producer id refused",
        setting=refusal.setting,
        limit=refusal.limit,
        refused=refusal.refused,
        **refusal.where,
    )


def _of(fence: Fence) -> dict[str, Any]:
    """Fields of the event; of a client only what is known."""
    fields: dict[str, Any] = {
        "cause": fence.cause.value,
        "transactional_id": fence.transactional_id,
        "producer_id": fence.producer_id,
        "producer_epoch": fence.producer_epoch,
        "fenced_at_ms": fence.at_ms,
    }
    if fence.owner is not None:
        fields["client_id"], fields["client_address"] = fence.owner
    if fence.by is not None:
        fields["by_client_id"], fields["by_client_address"] = fence.by
    return fields
