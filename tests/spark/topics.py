"""Topics of a broker for synchronous tests. One call creates, fills or reads a topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from oncelog_client import (
    Admin,
    Consumer,
    ConsumerRecord,
    Header,
    NewTopic,
    Producer,
    TopicPartition,
)
from oncelog_client.config import IsolationLevel
from tests.harness.client_reading import eventually

DEADLINE_S: Final = 30.0
# Timeout of transactions that a test leaves open: the broker's maximum, which is longer than any
# test.
TIMEOUT_MS: Final = 900_000


class Row(NamedTuple):
    """A record to append. Without a partition, the key decides which partition gets the record."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


class Topics:
    """The topics of one broker, for the parts of a test outside Spark."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(
        self, name: str, partitions: int = 2, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a new topic, and return its name."""
        self.create_all([name], partitions, configs)
        return name

    def create_all(
        self, names: Iterable[str], partitions: int = 2, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create new topics with equal settings, in one request."""

        async def create() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.create_topics(
                    [NewTopic(name, partitions, configs=configs or {}) for name in names]
                )

        asyncio.run(create())

    def append(self, topic: str, rows: Iterable[Row | bytes]) -> None:
        """Append rows. Return when all are acknowledged."""

        async def append() -> None:
            async with Producer(self.bootstrap) as producer:
                await _send(producer, topic, rows)

        asyncio.run(append())

    def append_transaction(
        self, topic: str, rows: Iterable[Row | bytes], *, commit: bool = True
    ) -> None:
        """Append rows in one transaction. Return when the transaction is committed or aborted, and
        readers see the result."""

        async def append() -> None:
            name = f"rows-of-{topic}"
            async with Producer(self.bootstrap, transactional_id=name) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                await _send(producer, topic, rows)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            await ended(self.bootstrap, name)

        asyncio.run(append())

    def read(self, *topics: str, committed: bool = True) -> list[ConsumerRecord]:
        """Return all readable records in the order of topic, partition and offset."""

        async def read() -> list[ConsumerRecord]:
            level: IsolationLevel = "read_committed" if committed else "read_uncommitted"
            async with Consumer(self.bootstrap, isolation_level=level) as consumer:
                partitions = [
                    TopicPartition(topic, row.partition)
                    for topic in topics
                    for row in await consumer.partitions_for(topic)
                ]
                ends = await consumer.end_offsets(partitions)
                await consumer.assign(partitions)
                await consumer.seek_to_beginning()
                records: list[ConsumerRecord] = []
                async with asyncio.timeout(DEADLINE_S):
                    while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                        records += await consumer.poll(200)
                return sorted(records, key=lambda r: (r.topic, r.partition, r.offset))

        return asyncio.run(read())

    def values(self, *topics: str, committed: bool = True) -> list[bytes | None]:
        """Return the values of `read`."""
        return [record.value for record in self.read(*topics, committed=committed)]

    def decided_values(self, *topics: str) -> list[bytes | None]:
        """Return the committed values once no transaction is open. In Kafka, that is a moment after
        the response to the commit."""
        deadline = time.monotonic() + DEADLINE_S
        while any(
            self.end_offsets(topic) != self.end_offsets(topic, committed=False) for topic in topics
        ):
            assert time.monotonic() < deadline, f"transactions are still open in {topics}"
        return self.values(*topics)

    def end_offsets(self, topic: str, *, committed: bool = True) -> dict[int, int]:
        """Return each partition's last stable offset, or its high watermark if not `committed`."""

        async def ends() -> dict[int, int]:
            level: IsolationLevel = "read_committed" if committed else "read_uncommitted"
            async with Consumer(self.bootstrap, isolation_level=level) as consumer:
                rows = await consumer.partitions_for(topic)
                found = await consumer.end_offsets(
                    [TopicPartition(topic, row.partition) for row in rows]
                )
                return {tp.partition: offset for tp, offset in found.items()}

        return asyncio.run(ends())


async def ended(bootstrap: str, transactional_id: str) -> None:
    """Wait until no record of the transaction is undecided in its partition. Kafka responds to
    EndTxn before it has written the markers."""
    async with Admin(bootstrap) as admin:

        async def is_over() -> bool:
            found = await admin.describe_transactions([transactional_id])
            return found[transactional_id].state in ("Empty", "CompleteCommit", "CompleteAbort")

        await eventually(is_over)


async def _send(producer: Producer, topic: str, rows: Iterable[Row | bytes]) -> None:
    sent = []
    for given in rows:
        row = given if isinstance(given, Row) else Row(given)
        sent.append(
            await producer.send(
                topic,
                row.value,
                key=row.key,
                partition=row.partition,
                headers=row.headers,
                timestamp_ms=row.timestamp_ms,
            )
        )
    await producer.flush()
    await asyncio.gather(*sent)
