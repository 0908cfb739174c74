"""The values that driver and executors exchange. The plan of a batch goes to the executors, and
each task returns a message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from oncelog_client.values import TransactionMember


class CommitKind(StrEnum):
    """The way to decide a batch. GROUP: one EndTxn for all transactions of the batch (oncelog).
    RECORD: one record, written before the transactions are ended one by one (any broker)."""

    GROUP = "group"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is to be planned.

    `query_id` and `batch_id` identify the batch; the driver may know neither before the tasks run
    (None). For a batch write they are txnAppId and txnVersion. For a stream, the driver reads the
    query id from the checkpoint if it can, and the tasks know the batch id.
    `adopts`: a new query may take the sink over (`onNewCheckpoint=adopt`).
    `noted_batch`: the newest batch in the checkpoint of a stream, None without one. It shows
    whether the stream is new, and whether its checkpoint is older than the sink's state.
    `sink_starts`: for batch 0 of a stream, the source ends that its sources have read from the
    sink's state and begin at (`startingOffsets=sink:<sinkId>`), as JSON texts.
    """

    sink_id: str
    kind: CommitKind
    query_id: str | None = None
    batch_id: int | None = None
    adopts: bool = False
    noted_batch: int | None = None
    sink_starts: tuple[str, ...] = ()

    @property
    def number(self) -> int | None:
        """The number of the batch. If unknown, the newest batch in the checkpoint, or None."""
        return self.noted_batch if self.batch_id is None else self.batch_id

    @property
    def is_version(self) -> bool:
        """Return True for a batch write with a txnVersion."""
        return self.batch_id is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one batch. Every task gets the plan inside the pickled writer.

    `parent`: the driver's own producer, None for a batch write without txnAppId, which keeps no
    state.
    `owner`: the query in the durable state.
    `done`: the number of the owner's next batch. All batches below it are finished.
    `query_id` and `batch_id`: as in Intent, None if only the tasks know them.
    `adopts`: as in Intent.
    """

    sink_id: str
    kind: CommitKind
    generation: int
    parent: TransactionMember | None
    owner: str | None
    done: int
    query_id: str | None = None
    batch_id: int | None = None
    adopts: bool = False

    @property
    def is_kept(self) -> bool:
        """Return True if the durable state counts the batch, so that it is never written twice."""
        return self.parent is not None

    @property
    def is_version(self) -> bool:
        """Return True for a batch write with a txnVersion."""
        return self.batch_id is not None


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """The result of one task attempt. The driver decides the batch with these results. `member`:
    the transaction of the attempt, None if the transaction is empty. `skipped`: the batch was done
    before. `duration_ms`: the time from the beginning of the transaction to its hand-over."""

    plan: Plan
    query_id: str | None
    partition: int
    member: TransactionMember | None = None
    rows: int = 0
    skipped: bool = False
    duration_ms: int = 0
