"""Whether a query may write to a sink, and which of its batches are done."""

from __future__ import annotations

from .messages import Plan
from .refusals import Refusal, new_checkpoint, old_checkpoint
from .state import SinkState


def admit(
    sink_id: str,
    stored: SinkState | None,
    query_id: str | None,
    batch_id: int | None,
    adopts: bool,
    *,
    is_version: bool = False,
) -> int | Refusal:
    """The number of batches that are done: those below it are skipped. `query_id` and `batch_id`
    are None while they are not known. `is_version`: `batch_id` is a txnVersion, and any that was
    written may be asked for again.

    A stream asks for no batch again but the last one, where Spark does not know that it is done.
    One before that comes from a checkpoint that has gone back in time: what is planned anew need
    not end where the batch did that was committed under the same number, so to skip it would lose
    what lies between.

    Batch numbers of two queries are never compared: a query that takes a sink over begins at its
    batch 0, so one that is further on is not new, and has lost the sink to somebody else.
    """
    if stored is None:
        return 0
    if query_id is None or stored.query_id is None or stored.query_id == query_id:
        if not is_version and batch_id is not None and batch_id < stored.offset - 1:
            return old_checkpoint(sink_id, stored, batch_id)
        return stored.offset
    if adopts and not batch_id:
        return 0
    return new_checkpoint(
        sink_id, stored.query_id, stored.last_batch, stored.source_end, query_id, batch_id
    )


def admit_task(plan: Plan, query_id: str | None, batch_id: int | None) -> int | Refusal:
    """The same on an executor, by what the plan says of the state."""
    stored = SinkState(plan.owner, plan.generation, plan.done)
    return admit(plan.sink_id, stored, query_id, batch_id, plan.adopts, is_version=plan.is_version)
