"""Whether a query may write to a sink, and which of its batches are done."""

from __future__ import annotations

from .messages import Plan
from .refusals import Refusal, new_checkpoint
from .state import SinkState


def admit(
    sink_id: str, stored: SinkState | None, query_id: str | None, batch_id: int | None, adopts: bool
) -> int | Refusal:
    """The number of batches that are done: those below it are skipped. `query_id` and `batch_id`
    are None while they are not known.

    Batch numbers of two queries are never compared: a query that takes a sink over begins at its
    batch 0, so one that is further on is not new, and has lost the sink to somebody else.
    """
    if stored is None:
        return 0
    if query_id is None or stored.query_id is None or stored.query_id == query_id:
        return stored.offset
    if adopts and not batch_id:
        return 0
    return new_checkpoint(
        sink_id, stored.query_id, stored.last_batch, stored.source_end, query_id, batch_id
    )


def admit_task(plan: Plan, query_id: str | None, batch_id: int | None) -> int | Refusal:
    """The same on an executor, by what the plan says of the state."""
    stored = SinkState(plan.owner, plan.generation, plan.done)
    return admit(plan.sink_id, stored, query_id, batch_id, plan.adopts)
