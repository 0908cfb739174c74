"""Carries out step 1 of the sink's protocol (`protocol/attempts.py`): one task attempt, in a Python
worker of an executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow

from oncelog_client.errors import FencedInGroupError, KafkaError, ProducerFencedError
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.spark.background import background
from oncelog_client.spark.fail_points import fail_at
from oncelog_client.spark.sink.protocol.attempts import Attempt, Write, begin
from oncelog_client.spark.sink.protocol.messages import Plan, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import (
    Refusal,
    SinkError,
    fenced,
    member_gone,
    timed_out,
)
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions
from oncelog_client.spark.sink.protocol.steps import Step
from oncelog_client.values import TransactionMember

from .back_end import BackEnd
from .back_ends import back_end
from .producers import Taken, drop, give_back, take
from .row_sender import BATCH_SIZE, RowSender

# Maximum time for one batch of rows, which waits for room in the buffer while a broker is
# unavailable. It is also the maximum time for the hand-over.
SEND_TIMEOUT_S: Final = 600
ABORT_TIMEOUT_S: Final = 10


def write(
    plan: Plan, options: SinkOptions, attempt: Attempt, batches: Iterator[pyarrow.RecordBatch]
) -> TaskMessage:
    """Write the rows of an attempt, and return the message for the driver. Raises SinkError,
    RowError, KafkaError or TimeoutError. Any error during the write aborts the rows, if
    possible."""
    begun = begin(plan, attempt)
    if isinstance(begun, Refusal):
        raise _sink_error(begun)
    if isinstance(begun, TaskMessage):
        for _ in batches:
            # Spark does not promise that a task may leave rows unread.
            pass
        return begun
    return _Transaction(plan, options).write(begun, attempt, batches)


class _Transaction:
    """The transaction of one attempt, opened at its first row."""

    def __init__(self, plan: Plan, options: SinkOptions) -> None:
        self._plan = plan
        self._options = options
        self._back_end: BackEnd = back_end(options, plan.kind, plan.sink_id, is_kept=plan.is_kept)
        self._taken: Taken | None = None
        self._sender: RowSender | None = None
        self._rows = 0
        self._begun_ms = 0.0

    def write(
        self, begun: Write, attempt: Attempt, batches: Iterator[pyarrow.RecordBatch]
    ) -> TaskMessage:
        try:
            for batch in batches:
                if batch.num_rows:
                    background().run(self._send(batch), SEND_TIMEOUT_S)
            member = background().run(self._hand_over(), SEND_TIMEOUT_S)
        except BaseException as error:
            with suppress(KafkaError, TimeoutError):
                background().run(self._give_up(), ABORT_TIMEOUT_S)
            if isinstance(error, KafkaError):
                raise self._explained(error) from error
            raise
        return TaskMessage(
            self._plan,
            begun.query_id,
            attempt.partition,
            member,
            self._rows,
            duration_ms=self._duration_ms(),
        )

    async def _send(self, batch: pyarrow.RecordBatch) -> None:
        if self._sender is None:
            self._sender = await self._begin()
        await self._sender.send(batch)
        self._rows += batch.num_rows

    async def _begin(self) -> RowSender:
        fail_at(f"{Step.TASK_INIT}.before")
        setup = self._options.producer
        self._taken = await take(setup, self._plan)
        self._begun_ms = monotonic_ms()
        await self._back_end.begin(self._taken.producer, self._plan)
        fail_at(f"{Step.TASK_INIT}.after")
        fail_at(f"{Step.TASK_PRODUCE}.before")
        batch_size = setup.keywords.get("batch_size", BATCH_SIZE)
        return RowSender(self._taken.producer, self._options.topic, batch_size)

    async def _hand_over(self) -> TransactionMember | None:
        """Hand the transaction over to the driver, and return it. Return None if the task has no
        rows, because then it has begun no transaction."""
        if self._taken is None:
            return None
        producer = self._taken.producer
        await producer.flush()
        fail_at(f"{Step.TASK_PRODUCE}.after")
        fail_at(f"{Step.TASK_HAND_OVER}.before")
        member = await producer.hand_over_transaction()
        await give_back(self._taken, self._plan)
        fail_at(f"{Step.TASK_HAND_OVER}.after")
        return member

    async def _give_up(self) -> None:
        """Abort, so that readers need not wait. If the abort fails, the next planning aborts the
        transaction."""
        if self._taken is None:
            return
        fail_at(f"{Step.TASK_ABORT}.before")
        try:
            await self._taken.producer.abort_transaction()
        finally:
            await drop(self._taken)
        fail_at(f"{Step.TASK_ABORT}.after")

    def _duration_ms(self) -> int:
        return int(monotonic_ms() - self._begun_ms) if self._taken is not None else 0

    def _explained(self, error: KafkaError) -> Exception:
        """Return a SinkError with the cause if the producer was fenced: by a newer driver, or at
        the transaction's timeout. Return any other error as it is, but add the right's name to the
        error of a missing right."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, FencedInGroupError | ProducerFencedError):
            cause = cause.__cause__
        if cause is None:
            self._back_end.explain(error, self._options.topic or "")
            return error
        duration_ms, timeout_ms = self._duration_ms(), self._options.transaction_timeout_ms
        if duration_ms < timeout_ms:
            return _sink_error(fenced(self._plan, None))
        name = "" if self._taken is None else self._taken.transactional_id
        detail = timed_out(timeout_ms, duration_ms)
        return _sink_error(member_gone(self._plan.sink_id, "the batch", name, detail))


def _sink_error(refusal: Refusal) -> SinkError:
    return SinkError(refusal.message, refusal.reason)
