"""The reasons for which a sink does not write, and their messages with advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .messages import Plan
from .state import SinkState


class Reason(StrEnum):
    NEW_CHECKPOINT = "the sink belongs to another query"
    OLD_CHECKPOINT = "the checkpoint is older than what the sink has committed"
    OLD_START = "the sink has committed a batch after the query has read its start"
    UNKNOWN_QUERY = "the query's id cannot be read"
    FENCED = "another driver has taken the sink over"
    CONTENDED = "other drivers keep taking the sink over"
    MEMBER_GONE = "a task's transaction is not open any more"
    DECIDED_MEMBER_LOST = "rows that were decided are lost"
    OUTCOME_UNKNOWN = "the outcome of the batch is unknown"
    MAYBE_PARTIAL = "the batch may be committed in part"
    BAD_MESSAGES = "the tasks' messages do not belong together"


_REPEAT: Final = "Repeat the write"
_READ_FIRST: Final = (
    "No state of this write is kept, so a repeated write may write rows twice. Find out which rows"
    " are in the topics before you repeat it. With txnAppId and txnVersion each write takes effect"
    " once"
)


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
    """Refuse a query: the sink's state belongs to the query `owner`. `done`: the owner's last
    batch, as text."""
    if batch_id:
        hint = (
            f"Query {query_id} is at batch {batch_id}, so the query is not new. If an old"
            " checkpoint was restored, start with an empty checkpoint, onNewCheckpoint=adopt and"
            f" startingOffsets=sink:{sink_id}: the query then starts after the last batch. If both"
            " queries are to run, give one of them another sinkId. That query then writes again all"
            " batches that its checkpoint does not have"
        )
    else:
        hint = (
            f"If the checkpoint of query {owner} is lost and this query replaces it, set"
            " onNewCheckpoint=adopt. The query then begins at batch 0. Rows before the source's"
            f" startingOffsets are not written again (startingOffsets=sink:{sink_id} starts where"
            " the last batch ended, if that is known). If both queries are to run, give one of them"
            " another sinkId"
        )
    return Refusal(
        Reason.NEW_CHECKPOINT,
        f"sink {sink_id} belongs to query {owner}, not to {query_id}: the sink has"
        f" committed {done}{_ended(source_end)}. {hint}.",
    )


def old_checkpoint(sink_id: str, stored: SinkState, batch_id: int) -> Refusal:
    """Refuse a batch before the last committed batch."""
    return Refusal(
        Reason.OLD_CHECKPOINT,
        f"sink {sink_id} has committed {stored.last_batch} of query {stored.query_id}"
        f"{_ended(stored.source_end)}. Spark has planned batch {batch_id} again: an older"
        " checkpoint was restored, or the query is running twice. To continue would lose rows,"
        " because a batch that is planned again may end elsewhere than the committed batch."
        f" {_newer_checkpoint(sink_id)}.",
    )


def planned_otherwise(
    sink_id: str, stored: SinkState, batch_id: int, source_end: str | None
) -> Refusal:
    """Refuse to repeat the last batch, because its source end is not that of the committed batch.
    Both ends are known."""
    return Refusal(
        Reason.OLD_CHECKPOINT,
        f"sink {sink_id} has committed batch {batch_id} of query {stored.query_id}; the sources"
        f" of this batch ended at {stored.source_end}. Spark has planned batch {batch_id} again,"
        f" with the end {source_end}: an older checkpoint was restored. To continue would lose the"
        f" rows between the two ends, or write them twice. {_newer_checkpoint(sink_id)}.",
    )


def old_start(sink_id: str, stored: SinkState, start: str) -> Refusal:
    """Refuse batch 0 of a query with `startingOffsets=sink:<sinkId>`. `start`: the source end at
    which a source of the query begins. It is not the source end in the sink's state, because an
    older query has committed a batch in between."""
    end = "at unknown offsets" if stored.source_end is None else f"at {stored.source_end}"
    return Refusal(
        Reason.OLD_START,
        f"sink {sink_id} has committed a batch of query {stored.query_id} after this query had read"
        f" its start: startingOffsets=sink:{sink_id} was {start}, but the sources of the last batch"
        f" ended {end}. To continue would write the rows between the two ends twice. Nothing of"
        f" this query was written. Stop query {stored.query_id}, and start this query again with an"
        f" empty checkpoint: the source then starts where the last batch ended",
    )


def _ended(source_end: str | None) -> str:
    return "" if source_end is None else f"; the sources of this batch ended at {source_end}"


def _newer_checkpoint(sink_id: str) -> str:
    return (
        "Restore a newer checkpoint, or begin a new checkpoint with onNewCheckpoint=adopt and, on"
        f" the source, startingOffsets=sink:{sink_id}. The source then starts where the last batch"
        " ended, if that is known"
    )


def written_by_another(sink_id: str, kind: str) -> str:
    """Return a message for a sink that was written with the other sinkProtocol, `kind`. Only that
    protocol has the state, and without the state the batches would start at 0."""
    return (
        f"sink {sink_id} was written with sinkProtocol={kind}, and only this protocol has its"
        f" state: set sinkProtocol={kind}, or give this query another sinkId"
    )


def unknown_query(sink_id: str) -> Refusal:
    return Refusal(
        Reason.UNKNOWN_QUERY,
        f"the query that writes to sink {sink_id} is unknown: Spark does not give the tasks the"
        " local property sql.streaming.queryId. Set checkpointLocation by .option(...) on the"
        " writer, to a path that the driver's Python can read",
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
            f"generation {stored.generation}, begun by an unknown query (its"
            " checkpointLocation cannot be read),"
        )
        asked = "Is the query running twice, or does another query have the same sinkId?"
    return Refusal(
        Reason.FENCED,
        f"another driver owns sink {plan.sink_id}: {successor} has taken over from generation"
        f" {plan.generation}. Nothing of this batch was committed. {asked}",
    )


def contended(sink_id: str, times: int) -> Refusal:
    return Refusal(
        Reason.CONTENDED,
        f"other drivers have taken over sink {sink_id} {times} times while this query was planning"
        f" one batch. Is the query running twice? Or is there a consumer group {sink_id} with"
        " members? A sink stores its state in a group with the sink's name: rename one of the two.",
    )


def member_gone(
    sink_id: str, batch: str, member: str, detail: str, *, is_kept: bool = True
) -> Refusal:
    """Refuse a batch that was not committed. `is_kept` (of the plan): a restarted query writes the
    batch again."""
    again = "The batch is written again when the query is restarted" if is_kept else _REPEAT
    return Refusal(
        Reason.MEMBER_GONE,
        f"{batch} of sink {sink_id} is not committed, not even in part: transaction {member} is"
        f" not open any more ({detail}). {again}",
    )


def timed_out(timeout_ms: int, duration_ms: int | None = None) -> str:
    """Return the detail for a member that timed out. `duration_ms`: the time since the member's
    transaction began."""
    took = "" if duration_ms is None else f", its task took {duration_ms} ms"
    return (
        f"timed out after {timeout_ms} ms{took}: kafka.transaction.timeout.ms must be longer than"
        " a batch takes, from the first row of a task to the commit"
    )


def decided_member_lost(sink_id: str, batch: str, member: str, detail: str) -> Refusal:
    return Refusal(
        Reason.DECIDED_MEMBER_LOST,
        f"{batch} of sink {sink_id} has lost rows (DECIDED_MEMBER_LOST): the batch was decided,"
        f" but the broker has aborted its transaction {member} ({detail}). The other rows of the"
        " batch are committed. The query cannot continue by itself. With another sinkId and the"
        " same checkpoint it writes the whole batch again, so the other rows appear twice. For"
        ' another way see "The hole of record" in docs/spark.md',
    )


def outcome_unknown(sink_id: str, batch: str, *, is_kept: bool = True) -> Refusal:
    """Refuse a batch without a response. `is_kept` (of the plan): the sink's state has the outcome.
    Otherwise all rows or none are committed."""
    then = "the outcome is read when the query is restarted"
    if not is_kept:
        then = f"either all of its rows are committed or none. {_READ_FIRST}"
    return Refusal(
        Reason.OUTCOME_UNKNOWN,
        f"the broker did not confirm the commit of {batch} of sink {sink_id}; {then}",
    )


def maybe_partial(sink_id: str, batch: str, detail: str) -> Refusal:
    """Refuse a batch of a sink that keeps no state, after a part of its transactions may have been
    committed."""
    return Refusal(
        Reason.MAYBE_PARTIAL,
        f"{batch} of sink {sink_id} may be committed in part: the rows of some tasks are visible or"
        f" become visible, those of other tasks are lost or stay invisible ({detail})."
        f" {_READ_FIRST}",
    )


def timeout_too_long(timeout_ms: int, most_ms: int) -> SinkError:
    return SinkError(
        f"kafka.transaction.timeout.ms={timeout_ms}: the broker allows at most"
        f" transaction.max.timeout.ms={most_ms}. The timeout must be longer than a batch takes,"
        " from the first row of a task to the commit: raise the broker's setting, or set the option"
        f" to {most_ms} and keep batches shorter (maxOffsetsPerTrigger)"
    )
