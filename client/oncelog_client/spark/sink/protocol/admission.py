"""The rule that admits a query to a sink and counts the finished batches of the query."""

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
    """Return the number of batches that are done, or the refusal of the query. Batches below the
    number are skipped. `query_id` and `batch_id` are None if unknown. `is_version`: `batch_id` is a
    txnVersion. Any version that was written before may be repeated, and is then skipped.

    A stream repeats at most the last batch, if Spark does not know that this batch is done. An
    earlier batch comes from a checkpoint that was restored from a copy. The new plan of such a
    batch may have other ends than the committed batch of the same number. If the sink skipped the
    batch, rows could be lost. So the query is refused.

    Batch numbers of two queries are never compared. A query that takes a sink over begins at its
    own batch 0. Another query at a later batch is not new: it has lost the sink, and is refused.
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
    """Apply the rule on an executor, to the state in the plan."""
    stored = SinkState(plan.owner, plan.generation, plan.done)
    return admit(plan.sink_id, stored, query_id, batch_id, plan.adopts, is_version=plan.is_version)
