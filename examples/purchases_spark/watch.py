"""Observes the broker while the job runs and is killed: the records of a read_committed reader, and
the micro-batches that the sinks have committed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from examples.purchases_spark.feed import INVOICES, PARTITIONS, PURCHASES, REVENUE, SHIPMENTS
from oncelog_client import Admin, Consumer, KafkaError, TopicPartition

SINKS: Final = ("bills", "revenue")
STATE: Final = TopicPartition("__oncelog_sink", 0)
LOOK_EVERY_S: Final = 0.1


class Batch(NamedTuple):
    """A micro-batch that was committed `seconds` after the start, with the number of purchases that
    the query had read by then. `generation` counts the drivers that have taken over the sink."""

    seconds: float
    sink: str
    batch_id: int
    generation: int
    rows: int
    purchases: int


class Kill(NamedTuple):
    """A kill, in seconds after the start, with the number of micro-batches that are known to be
    committed then."""

    seconds: float
    what: str
    batches: int


class Seen(NamedTuple):
    """A count, and the seconds after the start."""

    seconds: float
    purchases: int


@dataclass(slots=True)
class Watch:
    """The observations. `clock` returns seconds since the start. `came`: the numbers of purchases
    written so far. `billed`: the numbers of purchases with a visible invoice. `counts`: for each
    topic, the number of results by purchase or day."""

    servers: str
    clock: Callable[[], float]
    batches: list[Batch] = field(default_factory=list)
    came: list[Seen] = field(default_factory=list)
    billed: list[Seen] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {topic: Counter() for topic in (INVOICES, SHIPMENTS, REVENUE)}
    )
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def purchases_came(self, purchases: int) -> None:
        self.came.append(Seen(self.clock(), purchases))

    async def results(self) -> None:
        """Count the visible results until the task is cancelled. After an outage of the broker,
        continue at the last position."""
        while True:
            try:
                await self._read()
            except KafkaError:
                await asyncio.sleep(LOOK_EVERY_S)

    async def _read(self) -> None:
        async with Consumer(self.servers, isolation_level="read_committed") as consumer:
            partitions = [
                TopicPartition(topic, number)
                for topic in self.counts
                for number in range(PARTITIONS[topic])
            ]
            await consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, self.positions.get(partition, 0))
            while True:
                for record in await consumer.poll(timeout_ms=200, max_records=5_000):
                    assert record.value is not None
                    value = json.loads(record.value)
                    key = str(value["day"] if record.topic == REVENUE else value["purchase"])
                    self.counts[record.topic][key] += 1
                    here = TopicPartition(record.topic, record.partition)
                    self.positions[here] = record.offset + 1
                self.billed.append(Seen(self.clock(), len(self.counts[INVOICES])))

    async def commits(self) -> None:
        """Note the committed micro-batches. A micro-batch that is shorter than the interval between
        two look-ups may be missed."""
        last: dict[str, int] = dict.fromkeys(SINKS, 0)
        while True:
            try:
                async with Admin(self.servers, request_timeout_ms=2_000) as admin:
                    while True:
                        for sink in SINKS:
                            last[sink] = await self._commit(admin, sink, last[sink])
                        await asyncio.sleep(LOOK_EVERY_S)
            except KafkaError:
                await asyncio.sleep(LOOK_EVERY_S)

    async def _commit(self, admin: Admin, sink: str, last: int) -> int:
        state = (await admin.list_group_offsets(sink)).get(STATE)
        if state is None or state.offset <= last:
            return last
        kept = json.loads(state.metadata)
        read = sum(kept["sourceEnd"][PURCHASES].values())
        self.batches.append(
            Batch(self.clock(), sink, state.offset - 1, kept["gen"], kept["rows"], read)
        )
        return state.offset
