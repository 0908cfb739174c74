"""Step 1, in each task attempt: the decision to write the rows, to skip them or to refuse them."""

from __future__ import annotations

from dataclasses import dataclass

from .admission import admit_task
from .messages import Plan, TaskMessage
from .refusals import Refusal, unknown_query


@dataclass(frozen=True, slots=True)
class Attempt:
    """The properties of a task. Spark promises only the number of the partition: any other property
    may be missing, and is then None. Safety does not depend on these properties: without
    `batch_id`, a task writes a finished batch again, and the batch is then not committed."""

    partition: int
    query_id: str | None = None
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Write the rows in a transaction of the attempt. The transaction begins at the first row."""

    query_id: str | None


def begin(plan: Plan, attempt: Attempt) -> Write | TaskMessage | Refusal:
    """Return Write, or the message of a batch that is done, or a refusal. A batch before the last
    finished batch is refused, because Spark repeats no such batch of a stream."""
    query_id = plan.query_id or attempt.query_id
    batch_id = attempt.batch_id if plan.batch_id is None else plan.batch_id
    if query_id is None and plan.is_kept:
        return unknown_query(plan.sink_id)
    done = admit_task(plan, query_id, batch_id)
    if isinstance(done, Refusal):
        return done
    if batch_id is not None and batch_id < done:
        return TaskMessage(plan, query_id, attempt.partition, skipped=True)
    return Write(query_id)
