"""The reasons for which a sink does not write, and their messages with advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .messages import Plan
from .state import SinkState


class Reason(StrEnum):
    NEW_CHECKPOINT = "the sink belongs to another query"
    OLD_CHECKPOINT = "the checkpoint is older than what the sink has committed"
    UNKNOWN_QUERY = "the query's id cannot be read"
    FENCED = "another driver has taken the sink over"
    CONTENDED = "other drivers keep taking the sink over"
    MEMBER_GONE = "a task's transaction is not open any more"
    DECIDED_MEMBER_LOST = "rows that were decided are lost"
    OUTCOME_UNKNOWN = "the outcome of the batch is unknown"
    BAD_MESSAGES = "the tasks' messages do not belong together"


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: Reason
    message: str


class SinkError(Exception):
    """A batch is not written, or the outcome of the batch is unknown. `reason` is None if the
    broker or an option is the cause."""

    def __init__(self, message: str, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason

    def __reduce__(self) -> tuple[type[SinkError], tuple[str, Reason | None]]:
        return type(self), (self.message, self.reason)


def new_checkpoint(
    sink_id: str, owner: str, done: str, source_end: str | None, query_id: str, batch_id: int | None
) -> Refusal:
    """Refuse a query: the state belongs to another query."""
    if batch_id:
        hint = (
            f"Query {query_id} is at batch {batch_id}, so it is not new. If an old checkpoint was"
            " put back, begin with an empty one, onNewCheckpoint=adopt and"
            f" startingOffsets=sink:{sink_id}, to start after the last batch. If both are"
            " to run, give one of them another sinkId: under a new one it writes again whatever"
            " its checkpoint does not know of"
        )
    else:
        hint = (
            "If its checkpoint is lost and this query takes its place, set"
            " onNewCheckpoint=adopt: it begins at batch 0, and where its source begins decides"
            f" what is written twice (startingOffsets=sink:{sink_id} starts where the last batch"
            " ended, if that is known). If both are to run, give one of them another sinkId"
        )
    return Refusal(
        Reason.NEW_CHECKPOINT,
        f"sink {sink_id} belongs to query {owner}, not to {query_id}: it has committed"
        f" {done}{_ended(source_end)}. {hint}.",
    )


def old_checkpoint(sink_id: str, stored: SinkState, batch_id: int) -> Refusal:
    """Refuse a batch before the last one that is committed."""
    return Refusal(
        Reason.OLD_CHECKPOINT,
        f"sink {sink_id} has committed {stored.last_batch} of query {stored.query_id}"
        f"{_ended(stored.source_end)}, and Spark asks for batch {batch_id}: the checkpoint has"
        " gone back in time, or the query is running twice. To go on would lose rows, as what is"
        " planned anew need not end where the batches did that are committed."
        f" {_newer_checkpoint(sink_id)}.",
    )


def planned_otherwise(
    sink_id: str, stored: SinkState, batch_id: int, source_end: str | None
) -> Refusal:
    """Refuse a repetition of the last batch with another source end. Both ends are known."""
    return Refusal(
        Reason.OLD_CHECKPOINT,
        f"sink {sink_id} has committed batch {batch_id} of query {stored.query_id}; its sources"
        f" ended at {stored.source_end}. Spark has planned batch {batch_id} again, and ends it at"
        f" {source_end}: the checkpoint has gone back in time. To go on would lose the rows"
        f" between the two ends, or write them twice. {_newer_checkpoint(sink_id)}.",
    )


def _ended(source_end: str | None) -> str:
    return "" if source_end is None else f"; its sources ended at {source_end}"


def _newer_checkpoint(sink_id: str) -> str:
    return (
        "Put a newer checkpoint back, or begin a new one with onNewCheckpoint=adopt, and with"
        f" startingOffsets=sink:{sink_id} on the source, which starts where the last batch ended,"
        " if that is known"
    )


def written_by_another(sink_id: str, kind: str) -> str:
    """Return a message for a sink that was written by the other kind of commit. The state is kept
    there. Without the state, batches would start at 0."""
    return (
        f"sink {sink_id} was written with sinkProtocol={kind}, and its state is kept there: go on"
        f" with sinkProtocol={kind}, or give this query another sinkId"
    )


def unknown_query(sink_id: str) -> Refusal:
    return Refusal(
        Reason.UNKNOWN_QUERY,
        f"sink {sink_id} cannot find out which query writes to it: Spark does not give its tasks"
        " the local property sql.streaming.queryId. Set checkpointLocation by .option(...) on the"
        " writer, to a place that the driver's Python can read as a file",
    )


def fenced(plan: Plan, stored: SinkState | None) -> Refusal:
    """Return the refusal of a fenced driver. `stored`: the state that was found, None if the state
    was not read or is lost."""
    if stored is None or stored.generation == plan.generation:
        return Refusal(
            Reason.FENCED,
            f"another driver owns sink {plan.sink_id}, or the brokers have lost its transactional"
            f" ids: a producer of generation {plan.generation} was refused, and no newer generation"
            " was found. Nothing of this batch was committed. Is the query running twice? If not,"
            " was __transaction_state or __consumer_offsets deleted? Then restart the query",
        )
    asked = "Is the query running twice?"
    if stored.is_planner_known:
        successor = f"query {stored.query_id} in generation {stored.generation}"
    else:
        successor = (
            f"generation {stored.generation}, begun by a query that is not known, as its"
            " checkpointLocation cannot be read,"
        )
        asked = "Is the query running twice, or has another one the same sinkId?"
    return Refusal(
        Reason.FENCED,
        f"another driver owns sink {plan.sink_id}: {successor} has taken it over from generation"
        f" {plan.generation}. Nothing of this batch was committed. {asked}",
    )


def contended(sink_id: str, times: int) -> Refusal:
    return Refusal(
        Reason.CONTENDED,
        f"sink {sink_id} was taken over by others {times} times while this query was planning one"
        f" batch. Is it running twice? Or has a consumer group the name {sink_id}, and members? A"
        " sink's state is kept under its name as a group's: give one of the two another name.",
    )


def member_gone(sink_id: str, batch: str, member: str, detail: str) -> Refusal:
    return Refusal(
        Reason.MEMBER_GONE,
        f"{batch} of sink {sink_id} is not committed, none of it: transaction {member} is not"
        f" open any more ({detail}). It is written again when the query is restarted",
    )


def timed_out(timeout_ms: int, duration_ms: int | None = None) -> str:
    """Return the detail of a member with a transaction that timed out."""
    took = "" if duration_ms is None else f", its task took {duration_ms} ms"
    return (
        f"timed out after {timeout_ms} ms{took}: kafka.transaction.timeout.ms must be longer than"
        " a batch takes, from the first row of a task to the commit"
    )


def decided_member_lost(sink_id: str, batch: str, member: str, detail: str) -> Refusal:
    return Refusal(
        Reason.DECIDED_MEMBER_LOST,
        f"{batch} of sink {sink_id} has lost rows (DECIDED_MEMBER_LOST): it was decided, and the"
        f" broker has aborted transaction {member} of it ({detail}). Its other rows are there. The"
        " query does not go on by itself: started with another sinkId and the same checkpoint it"
        " writes the whole batch again, so that those rows are there twice; for another way see"
        ' "The hole of record" in docs/spark.md',
    )


def outcome_unknown(sink_id: str, batch: str) -> Refusal:
    return Refusal(
        Reason.OUTCOME_UNKNOWN,
        f"the broker did not confirm the commit of {batch} of sink {sink_id}; the outcome is read"
        " when the query is restarted",
    )


def timeout_too_long(timeout_ms: int, most_ms: int) -> SinkError:
    return SinkError(
        f"kafka.transaction.timeout.ms={timeout_ms}: the broker allows at most"
        f" transaction.max.timeout.ms={most_ms}. It must be longer than a batch takes, from the"
        " first row of a task to the commit: raise the broker's setting, or set the option to"
        f" {most_ms} and keep batches shorter (maxOffsetsPerTrigger)"
    )
