"""Log events of transactions. If a transaction is aborted without a request of its producer, two
events are logged: the abort, and the first request that is refused because of it. Other events are
for markers that a coordinator skips in its log, and for refused producer ids."""

from __future__ import annotations

from typing import Any

import structlog

from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import Fence, Fences
from oncelog_server.transaction.producer_id_quota import Refusal

log = structlog.get_logger("oncelog.transactions")


def logged_fences() -> Fences:
    """Return `Fences` that log each abort that the producer did not request, and the first refused
    request after it."""
    return Fences(
        on_aborted=lambda fence: log.warning("transaction aborted", **_of(fence)),
        on_refused=lambda fence: log.warning("producer refused", **_of(fence)),
    )


def log_stray_markers(index: int, count: int) -> None:
    """Log that the load of a partition of `__transaction_state` skipped markers."""
    log.warning("markers in the transaction log skipped", partition=index, markers=count)


def log_refused_id(refusal: Refusal) -> None:
    """Log a refused producer id. The client gets only POLICY_VIOLATION, because the response of
    InitProducerId has no field for a text."""
    log.warning(
        "producer id refused",
        setting=refusal.setting,
        limit=refusal.limit,
        refused=refusal.refused,
        **refusal.where,
    )


def _of(fence: Fence) -> dict[str, Any]:
    """Return the fields of the event. The fields of a client are left out if the client is
    unknown."""
    fields: dict[str, Any] = {
        "cause": fence.cause.value,
        "transactional_id": fence.transactional_id,
        "producer_id": fence.producer_id,
        "producer_epoch": fence.producer_epoch,
        "fenced_at_ms": fence.at_ms,
    }
    if fence.owner is not None:
        fields |= _client_fields(fence.owner, "")
    if fence.by is not None:
        fields |= _client_fields(fence.by, "by_")
    return fields


def _client_fields(client: Client, prefix: str) -> dict[str, str]:
    """Return the fields of a client. Without authentication there is no principal."""
    fields = {
        f"{prefix}client_id": client.client_id,
        f"{prefix}client_address": client.client_address,
    }
    if client.principal:
        fields[f"{prefix}principal"] = client.principal
    return fields
