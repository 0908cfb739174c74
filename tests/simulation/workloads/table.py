"""W4: a compacted topic. The latest committed value of every key survives compaction and
crashes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from oncelog_client import Producer, RecordMetadata
from tests.simulation.checking.history import Outcome
from tests.simulation.recorder import Attempt
from tests.simulation.workloads.transactional import TransactionalClient

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld

KEYS = 5


@dataclass(slots=True)
class Write:
    """A write to the topic. `value` None deletes the key. `offset` None: not acknowledged."""

    key: str
    value: int | None
    attempt: Attempt
    offset: int | None = None


@dataclass(slots=True)
class Ledger:
    """All writes to the topic."""

    writes: list[Write] = field(default_factory=list)

    def violations(
        self, table: Iterable[tuple[int, str, int | None]], keys: set[str]
    ) -> Iterator[str]:
        """Yield violations. `table`: (offset, key, value) of the records of one partition, in the
        order of a read_committed reader. `keys`: the keys of this partition."""
        outcomes = {
            write.value: write.attempt.outcome for write in self.writes if write.value is not None
        }
        latest: dict[str, tuple[int, int | None]] = {}
        for offset, key, value in table:
            latest[key] = (offset, value)
            if value is not None and outcomes.get(value) is Outcome.FAIL:
                yield f"{key}={value} at {offset} is of a transaction that was aborted"
        committed: defaultdict[str, dict[int, int | None]] = defaultdict(dict)
        for write in self.writes:
            if (
                write.key in keys
                and write.attempt.outcome is Outcome.OK
                and write.offset is not None
            ):
                committed[write.key][write.offset] = write.value
        for key, written in sorted(committed.items()):
            last = max(written)
            offset, value = latest.get(key, (-1, None))
            if offset == last and value != written[last]:
                yield f"{key} at {last} is {value}, not {written[last]}"
            elif offset < last and written[last] is not None:
                yield f"{key}={written[last]} at {last} is gone, the latest is at {offset}"


class Table(TransactionalClient):
    kind = "table"

    def __init__(self, world: BaseWorld, name: str) -> None:
        super().__init__(world, name)
        self.transactional_id = name

    async def work(self) -> None:
        producer = await self.open_producer()
        try:
            await producer.init_transactions()
            while not self.is_done and await self.transaction(producer):
                await self.idle(60)
        finally:
            await self.close(producer)

    async def fill(self, producer: Producer, attempt: Attempt) -> None:
        for _ in range(self.rng.randint(1, 4)):
            index = self.rng.randrange(KEYS)
            deletes = self.rng.random() < 0.15
            value = None if deletes else self.world.recorder.next_value()
            write = Write(f"k{index}", value, attempt)
            self.world.ledger.writes.append(write)
            ticket = await producer.send(
                "table",
                None if value is None else b"%d" % value,
                key=write.key.encode(),
                partition=index % self.world.options.topic_partitions,
            )
            ticket.add_done_callback(partial(_acked, write))


def _acked(write: Write, done: asyncio.Future[RecordMetadata]) -> None:
    if not done.cancelled() and done.exception() is None and done.result().offset >= 0:
        write.offset = done.result().offset
