"""The running example as a streaming query: each purchase produces an invoice and a shipment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array, col, concat_ws, explode, lit, struct
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.topics import Topics

PARTITIONS = 2


class Pipeline(NamedTuple):
    """One sink with its topics and its checkpoint. Every run uses `options` for the sink and
    `source_options` for the source. `poisoned`: the rows name a partition that does not exist."""

    bootstrap: str
    name: str
    checkpoint: str
    options: Mapping[str, str] = {}
    source_options: Mapping[str, str] = {}
    sink: str = "oncelog"
    poisoned: bool = False

    @property
    def purchases(self) -> str:
        return f"{self.name}-purchases"

    @property
    def invoices(self) -> str:
        return f"{self.name}-invoices"

    @property
    def shipments(self) -> str:
        return f"{self.name}-shipments"

    def create_topics(self) -> None:
        """Create all three topics, with PARTITIONS partitions each."""
        topics = Topics(self.bootstrap)
        topics.create_all([self.purchases, self.invoices, self.shipments], PARTITIONS)

    def rows(self, session: SparkSession) -> DataFrame:
        """Return the rows to write. One task writes two rows for each purchase; their key and value
        are the purchase's place in its topic (`partition:offset`)."""
        purchases = (
            session.readStream.format("oncelog")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.purchases)
            .option("startingOffsets", "earliest")
            .options(**self.source_options)
            .load()
        )
        place = concat_ws(":", col("partition"), col("offset"))
        both = array(
            *(
                struct(lit(topic).alias("topic"), place.alias("key"), place.alias("value"))
                for topic in (self.invoices, self.shipments)
            )
        )
        rows = purchases.select(explode(both).alias("row")).select("row.*")
        return rows.withColumn("partition", lit(PARTITIONS)) if self.poisoned else rows

    def start(self, session: SparkSession, *, available_now: bool = True) -> StreamingQuery:
        """Start the query. With `available_now` it ends after the existing purchases, else it runs
        until it is stopped."""
        writer = (
            self.rows(session)
            .writeStream.format(self.sink)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("sinkId", self.name)
            .options(**self.options)
            .option("checkpointLocation", self.checkpoint)
        )
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 seconds").start()

    def as_json(self) -> dict[str, Any]:
        """Return the pipeline as JSON for another process: `Pipeline(**json.loads(...))`."""
        return self._asdict()
