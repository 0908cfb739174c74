"""A sink without transactions, for comparison. Its rows are visible at once, and a retry writes
them again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from oncelog_client import Producer
from oncelog_client.spark.fail_points import fail_at


class NaiveSink(DataSource):
    """`format("naive")`."""

    @classmethod
    def name(cls) -> str:
        return "naive"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return NaiveWriter(self.options["kafka.bootstrap.servers"])


class NaiveWriter(DataSourceStreamWriter):
    """A writer that sends the rows of each task without a transaction."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        async def send() -> None:
            async with Producer(self.bootstrap) as producer:
                for row in iterator:
                    await producer.send(row.topic, row.value.encode(), row.key.encode())
                await producer.flush()

        fail_at("task.produce.before")
        asyncio.run(send())
        fail_at("task.produce.after")
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        fail_at("commit.decide.before")
        fail_at("commit.decide.after")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass
