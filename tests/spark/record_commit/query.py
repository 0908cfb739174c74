"""An imitation of Spark: queries that plan, write and commit batches and restart from the
checkpoint. Each call runs in its own process, in place of a process of Spark. The sink is the real
one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow

from oncelog_client import Admin, KafkaError, Producer
from oncelog_client.spark.background import background
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import Intent, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.record_log import STATE_PARTITION
from oncelog_client.spark.sink.protocol.record_state import Entry, encode
from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions, sink_options
from oncelog_client.spark.sink.protocol.steps import Look, Step, Stored
from oncelog_client.spark.sink.record_commit import RecordCommit
from tests.spark.fail_points import FailPoints
from tests.spark.record_commit.forked import Forked, Killed, run
from tests.spark.topics import DEADLINE_S, ended

PARTITIONS: Final = 3
MOST_ATTEMPTS: Final = 4
MOST_RESTARTS: Final = 6


@dataclass(frozen=True)
class Query:
    """A query with the checkpoint of its driver. `more`: options of the sink. `source_end`: the
    source end in the checkpoint of each batch. If `more` has a checkpointLocation, it names no
    readable folder, so planning does not know the query."""

    bootstrap: str
    sink_id: str
    topic: str
    fail_points: FailPoints
    query_id: str = "q-1"
    more: Mapping[str, str] = field(default_factory=dict)
    source_end: str | None = None

    @property
    def options(self) -> SinkOptions:
        given = {
            "kafka.bootstrap.servers": self.bootstrap,
            "sinkId": self.sink_id,
            "sinkProtocol": "record",
            "topic": self.topic,
            **self.more,
        }
        return sink_options(Options(given), streaming=True)

    def having(self, **more: str) -> Query:
        """Return the query with further options. An underscore stands for a dot."""
        given = {name.replace("_", "."): value for name, value in more.items()}
        return replace(self, more={**self.more, **given})

    # -- in a worker process

    def planned(self) -> Plan:
        options = self.options
        kind = driver.commit_kind(options)
        known = None if options.checkpoint_location else self.query_id
        intent = Intent(self.sink_id, kind, query_id=known, adopts=options.adopts)
        return driver.plan(options, intent)

    def written(self, plan: Plan, batch_id: int, partition: int) -> TaskMessage:
        rows = [{"value": value(batch_id, partition, number)} for number in range(2)]
        batches = [pyarrow.RecordBatch.from_pylist(rows)] if partition else []
        if partition == 1:
            batches = [pyarrow.RecordBatch.from_pylist([row]) for row in rows]
        attempt = Attempt(partition, self.query_id, batch_id)
        return task_writer.write(plan, self.options, attempt, iter(batches))

    def committed(self, messages: list[TaskMessage], batch_id: int) -> bool:
        return driver.commit(self.options, messages, batch_id, self.source_end)

    def aborted(self, messages: list[TaskMessage], batch_id: int) -> None:
        driver.abort(self.options, [*messages], batch_id)

    # -- processes

    def plan(self) -> Plan:
        return run(self.planned, self.fail_points.environment)

    def write(self, plan: Plan, batch_id: int) -> list[TaskMessage]:
        """Run all tasks at once. If a task dies, start another attempt, as Spark does."""
        tasks = [self.start_task(plan, batch_id, number) for number in range(PARTITIONS)]
        return [self._message(plan, batch_id, task) for task in enumerate(tasks)]

    def write_in_time(self, plan: Plan, batch_id: int) -> list[TaskMessage]:
        """Write within the short timeout of the transactions. Retry if the computer pauses for
        longer than the timeout."""
        while True:
            try:
                return self.write(plan, batch_id)
            except SinkError as error:
                if error.reason is not Reason.MEMBER_GONE:
                    raise

    def start_task(self, plan: Plan, batch_id: int, partition: int) -> Forked[TaskMessage]:
        return Forked(lambda: self.written(plan, batch_id, partition), self.fail_points.environment)

    def _message(
        self, plan: Plan, batch_id: int, begun: tuple[int, Forked[TaskMessage]]
    ) -> TaskMessage:
        partition, task = begun
        for _ in range(MOST_ATTEMPTS):
            try:
                return task.result()
            except Killed:
                task = self.start_task(plan, batch_id, partition)
        raise AssertionError(f"task {partition} of batch {batch_id} never ends")

    def commit(self, messages: list[TaskMessage], batch_id: int) -> bool:
        return self.start_commit(messages, batch_id).result()

    def start_commit(self, messages: list[TaskMessage], batch_id: int) -> Forked[bool]:
        return Forked(lambda: self.committed(messages, batch_id), self.fail_points.environment)

    def abort(self, messages: list[TaskMessage], batch_id: int) -> None:
        run(lambda: self.aborted(messages, batch_id), self.fail_points.environment)

    def fenced_while_it_writes(self, batch_id: int) -> None:
        """Fence a task between two of its rows. Its process then writes the next batch."""

        def rows() -> Iterator[pyarrow.RecordBatch]:
            yield pyarrow.RecordBatch.from_pylist([{"value": "first"}])
            self._fence_all()
            yield pyarrow.RecordBatch.from_pylist([{"value": "second"}])

        def work() -> None:
            plan = self.planned()
            attempt = Attempt(1, self.query_id, batch_id)
            with suppress(KafkaError, SinkError):
                task_writer.write(plan, self.options, attempt, rows())
                raise AssertionError("the task was not fenced")
            # In the plan of the next batch, this batch counts as done, so the tasks of the next
            # batch reuse the transactional ids.
            plan = replace(plan, done=batch_id + 1)
            messages = [self.written(plan, batch_id + 1, number) for number in range(PARTITIONS)]
            assert self.committed(messages, batch_id + 1)

        run(work, self.fail_points.environment)

    def looks_while_open(self, plan: Plan) -> int:
        """Return the offset in the state that the command Look finds with `stable`. When Look
        begins, a transaction of the parent is open, and has written a state with offset 7. This
        transaction ends during Look."""
        options, parent = self.options, plan.parent
        assert parent is not None
        sink = RecordCommit(options.admin, self.sink_id, options.transaction_timeout_ms)

        async def work() -> int:
            stored = await sink.perform(Look(Step.COMMIT_READ, stable=True))
            assert isinstance(stored, Stored)
            assert stored.state is not None
            name = parent.transactional_id
            async with (
                Admin(self.bootstrap) as admin,
                Producer(self.bootstrap, transactional_id=name) as producer,
            ):
                taken = await admin.init_producer(name)
                await producer.adopt_transactions(taken)
                await producer.begin_transaction()
                topic, partition = STATE_PARTITION
                value = encode(Entry(replace(stored.state, offset=7)))
                await producer.send(topic, value, name.encode(), partition=partition)
                await producer.hand_over_transaction()
                look = asyncio.create_task(sink.perform(Look(Step.COMMIT_READ, stable=True)))
                at_once = await sink.perform(Look(Step.PLAN_READ, stable=False))
                assert at_once == stored
                await admin.end_transaction(taken)
                found = await look
            assert isinstance(found, Stored)
            assert found.state is not None
            return found.state.offset

        return run(lambda: background().run(work(), 60), self.fail_points.environment)

    def open_ids(self) -> list[str]:
        """Return the transactional ids of the query's tasks that have an open transaction."""

        async def listed() -> list[str]:
            async with Admin(self.bootstrap) as admin:
                found = await admin.list_transactions(
                    states=["Ongoing"], transactional_id_pattern=f"{self.sink_id}/.*"
                )
                return [transaction.transactional_id for transaction in found]

        return asyncio.run(listed())

    def _fence_all(self) -> None:
        """Fence all open transactions. Wait until there is one, because a task sends buffered rows
        late."""
        deadline = time.monotonic() + DEADLINE_S
        while not (ids := self.open_ids()):
            assert time.monotonic() < deadline, "nothing is open"

        async def fence() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.fence_producers(ids)

        asyncio.run(fence())

    def in_one_process(self, batches: Iterable[int]) -> list[int]:
        """Return the generations of batches that one process plans and other processes commit. A
        batch is planned when readers see the previous batch: Kafka responds to a commit earlier,
        and a plan that does not see its previous batch begins another generation."""

        def work() -> list[int]:
            generations = []
            for batch_id in batches:
                plan = self.planned()
                generations.append(plan.generation)
                assert self.commit(self.write(plan, batch_id), batch_id)
                assert plan.parent is not None
                over = ended(self.bootstrap, plan.parent.transactional_id)
                background().run(over, DEADLINE_S)
            return generations

        return run(work, self.fail_points.environment)

    # -- batches

    def batch(self, batch_id: int) -> bool:
        """Run one batch. Return True if this commit decided it."""
        plan = self.plan()
        return self.commit(self.write(plan, batch_id), batch_id)

    def run(self, batches: Iterable[int], *, aborts: bool = False) -> int:
        """Run the batches. Restart from the checkpoint whenever a process of the driver dies. With
        `aborts` the driver's JVM survives and aborts. Return the number of restarts."""
        restarts = 0
        for batch_id in batches:
            while not self._batch(batch_id, aborts):
                restarts += 1
                assert restarts <= MOST_RESTARTS, "never ends"
        return restarts

    def _batch(self, batch_id: int, aborts: bool) -> bool:
        try:
            messages = self.write(self.plan(), batch_id)
        except Killed:
            return False
        try:
            self.commit(messages, batch_id)
        except Killed:
            if aborts:
                self._abort(messages, batch_id)
            return False
        return True

    def _abort(self, messages: list[TaskMessage], batch_id: int) -> None:
        try:
            self.abort(messages, batch_id)
        except Killed:
            return


def value(batch_id: int, partition: int, number: int) -> str:
    return f"{batch_id}/{partition}/{number}"


def expected(*batches: int) -> list[bytes]:
    """Return all rows of batches, sorted. The first task of each batch writes no row."""
    return sorted(
        value(batch_id, partition, number).encode()
        for batch_id in batches
        for partition in range(1, PARTITIONS)
        for number in range(2)
    )
