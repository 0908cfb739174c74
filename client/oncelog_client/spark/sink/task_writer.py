"""Step 1 at work: one task attempt, in a Python worker of an executor.

Producers are kept from one batch to the next: they and their connections are the costly part.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow

from oncelog_client.clock import monotonic_ms
from oncelog_client.errors import KafkaError
from oncelog_client.producer import Producer
from oncelog_client.spark.background import background
from oncelog_client.spark.client_settings import ClientSetup
from oncelog_client.spark.fail_points import fail_at
from oncelog_client.values import TransactionMember

from .attempts import Attempt, Write, begin
from .back_end import BackEnd
from .driver import back_end
from .ids import ProcessIds
from .messages import Plan, TaskMessage
from .refusals import Refusal, SinkError
from .row_sender import BATCH_SIZE, RowSender
from .sink_options import SinkOptions
from .steps import Step

# A batch of rows is sent as soon as there is room for it: as long as a broker may be away.
SEND_TIMEOUT_S: Final = 600
ABORT_TIMEOUT_S: Final = 10

_ids: Final[dict[tuple[int, str, str], ProcessIds]] = {}


def write(
    plan: Plan, options: SinkOptions, attempt: Attempt, batches: Iterator[pyarrow.RecordBatch]
) -> TaskMessage:
    """Raises SinkError, KafkaError; what was written is then aborted, if that can be done."""
    begun = begin(plan, attempt)
    if isinstance(begun, Refusal):
        raise SinkError(begun.message, begun.reason)
    if isinstance(begun, TaskMessage):
        for _ in batches:
            # Spark does not promise that rows may be left unread.
            pass
        return begun
    return _Transaction(plan, options).write(begun, attempt, batches)


class _Transaction:
    """That of one attempt, opened at its first row."""

    def __init__(self, plan: Plan, options: SinkOptions) -> None:
        self._plan = plan
        self._options = options
        self._back_end: BackEnd = back_end(
            plan.kind, options.admin, plan.sink_id, options.transaction_timeout_ms
        )
        self._producer: Producer | None = None
        self._setup: ClientSetup | None = None
        self._sender: RowSender | None = None
        self._rows = 0

    def write(
        self, begun: Write, attempt: Attempt, batches: Iterator[pyarrow.RecordBatch]
    ) -> TaskMessage:
        started_ms = monotonic_ms()
        try:
            for batch in batches:
                if batch.num_rows:
                    background().run(self._send(batch), SEND_TIMEOUT_S)
            member = background().run(self._hand_over(), SEND_TIMEOUT_S)
        except BaseException:
            with suppress(KafkaError, TimeoutError):
                background().run(self._abort(), ABORT_TIMEOUT_S)
            with suppress(KafkaError, TimeoutError):
                background().run(self._drop(), ABORT_TIMEOUT_S)
            raise
        return TaskMessage(
            self._plan,
            begun.query_id,
            attempt.partition,
            member,
            self._rows,
            duration_ms=int(monotonic_ms() - started_ms),
        )

    async def _send(self, batch: pyarrow.RecordBatch) -> None:
        if self._producer is None:
            fail_at(f"{Step.TASK_INIT}.before")
            self._producer = await self._begin()
            fail_at(f"{Step.TASK_INIT}.after")
            fail_at(f"{Step.TASK_PRODUCE}.before")
            batch_size = self._options.producer.keywords.get("batch_size", BATCH_SIZE)
            self._sender = RowSender(self._producer, self._options.topic, batch_size)
        assert self._sender is not None
        await self._sender.send(batch)
        self._rows += batch.num_rows

    async def _begin(self) -> Producer:
        key = (os.getpid(), self._options.producer.bootstrap_servers, self._plan.sink_id)
        ids = _ids.get(key) or ProcessIds(uuid.uuid4().hex[:12])
        _ids[key], transactional_id = ids.take(self._plan)
        setup = self._setup = self._options.producer.having(
            transactional_id=transactional_id, **self._back_end.producer_settings()
        )
        producer = await background().client(
            ("producer", setup), lambda: Producer(setup.bootstrap_servers, **setup.keywords)
        )
        await self._back_end.begin(producer, self._plan)
        return producer

    async def _hand_over(self) -> TransactionMember | None:
        """None without rows: nothing was begun."""
        if self._producer is None:
            return None
        await self._producer.flush()
        fail_at(f"{Step.TASK_PRODUCE}.after")
        fail_at(f"{Step.TASK_HAND_OVER}.before")
        member = await self._producer.hand_over_transaction()
        fail_at(f"{Step.TASK_HAND_OVER}.after")
        return member

    async def _abort(self) -> None:
        if self._producer is not None:
            fail_at(f"{Step.TASK_ABORT}.before")
            await self._producer.abort_transaction()
            fail_at(f"{Step.TASK_ABORT}.after")

    async def _drop(self) -> None:
        """A producer that was fenced is fenced for good: the next batch needs another one."""
        producer = background().forget(("producer", self._setup))
        if producer is not None:
            await producer.close(0)
