"""The one interface of the two ways to commit: `group_commit` (oncelog) and `record_commit` (any
broker that speaks Kafka's protocol).

The driver's part (planning, commit, abort) is a back-end's own. What happens in a task is the same
for both (`task_writer`), but for how a transaction is begun: every attempt takes an id that no
other attempt of its batch can have (`ids`), initialises it itself, writes, and leaves the
transaction open. There are no slots: PySpark does not tell a task the attempt of its stage, so an
id that the driver gives to a partition could come to two attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oncelog_client.producer import Producer

from .messages import CommitKind, Intent, Plan, TaskMessage


class BackEnd(Protocol):
    """One sink's, made in every process that has to do with it, and for one call of Spark: what it
    keeps between two it keeps in its module, which may vanish at any time. Called on the background
    loop. Every method may raise SinkError, which says what to do, or KafkaError."""

    @property
    def kind(self) -> CommitKind: ...

    async def plan(self, intent: Intent) -> Plan:
        """Step 0, in a process of the driver, once a batch. Everything that is open under ids of
        this sink is nobody's, and aborted."""
        ...

    def producer_settings(self, plan: Plan) -> Mapping[str, Any]:
        """What a task's producer needs beside `transactional_id` and `transaction_timeout_ms`."""
        ...

    async def begin(self, producer: Producer, plan: Plan) -> None:
        """Step 1.2, on an executor: give the producer's transactional id a new epoch, which aborts
        what it had open, and begin a transaction. Raises FencedInGroupError or ProducerFencedError
        where a newer driver has come. The rest is `Producer.hand_over_transaction`."""
        ...

    async def commit(
        self, messages: Sequence[TaskMessage | None], batch_id: int | None, source_end: str | None
    ) -> bool:
        """Step 2, in a process of the driver that knows the messages alone; False where the batch
        was done before. `source_end`: where it ends in its sources, as JSON text."""
        ...

    async def abort(self, messages: Sequence[TaskMessage | None], batch_id: int | None) -> None:
        """Step 3: give up what was written, unless it was decided. None for failed tasks."""
        ...
