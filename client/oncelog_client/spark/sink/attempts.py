"""Step 1, a task attempt: whether it writes at all, and what it leaves for the driver."""

from __future__ import annotations

from dataclasses import dataclass

from .admission import admit_task
from .messages import Plan, TaskMessage
from .refusals import Refusal, unknown_query


@dataclass(frozen=True, slots=True)
class Attempt:
    """What Spark tells a task. All but the partition comes by names that Spark does not promise:
    None where it is missing. Safety depends on none of them; without `batch_id` a batch that is
    done is written again, and not committed."""

    partition: int
    query_id: str | None = None
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Write the rows, in a transaction of the attempt's own that is begun at the first one."""

    query_id: str | None


def begin(plan: Plan, attempt: Attempt) -> Write | TaskMessage | Refusal:
    """Write, or the message of a batch that is done, or why there is nothing to be written: a
    stream's batch that is not the last one that was done is none that Spark repeats."""
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
