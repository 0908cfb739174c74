"""The topics of a broker, with operations for the connector's tests only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Producer

from oncelog_client import Admin, TopicPartition
from tests.spark.topics import Row, Topics, ended

WAIT_S: Final = 30.0
# Longer than Spark takes for a read.
TRANSACTION_MS: Final = 600_000


class Log(Topics):
    """Topics with transactions that stay open for a while, deleted records, and added
    partitions."""

    @contextmanager
    def open_transaction(self, topic: str, rows: Iterable[Row]) -> Iterator[None]:
        """Append rows in a transaction, and commit it at the end of the block."""
        name = f"open-on-{topic}"
        settings = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_MS,
        }
        producer = Producer(settings)
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for row in rows:
            producer.produce(topic, row.value, row.key, partition=row.partition)
        assert producer.flush(WAIT_S) == 0
        yield
        producer.commit_transaction(WAIT_S)
        asyncio.run(ended(self.bootstrap, name))

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records of partition 0 before this offset."""

        async def delete() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.delete_records({TopicPartition(topic, 0): offset})

        asyncio.run(delete())

    def add_partitions(self, topic: str, count: int) -> None:
        """Give the topic this number of partitions."""

        async def add() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.create_partitions({topic: count})

        asyncio.run(add())
