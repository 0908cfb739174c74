"""The purchases as a Spark job. It writes an invoice and a shipment for each, and the revenue of
each day.

    spark-submit examples/purchases_spark/job.py BOOTSTRAP_SERVERS CHECKPOINTS

If a process dies, start the job again. The job continues from its checkpoints and writes every
result exactly once.
"""

from __future__ import annotations

import sys
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from oncelog_client.spark.listener import ProgressListener

PURCHASE: Final = "id long, customer string, date string, cds int, cents long"


def read_purchases(spark: SparkSession, servers: str) -> DataFrame:
    records = (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "purchases")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 4_000)
        .load()
    )
    purchase = f.from_json(f.col("value").cast("string"), PURCHASE)
    return records.select("key", purchase.alias("purchase")).select("key", "purchase.*")


def bills(purchases: DataFrame) -> DataFrame:
    """Return the invoice and the shipment of each purchase. One task writes them, so a reader sees
    both or none."""
    invoice = f.to_json(f.struct(f.col("id").alias("purchase"), "cents"))
    shipment = f.to_json(f.struct(f.col("id").alias("purchase"), "cds"))
    rows = f.array(
        f.struct(f.lit("invoices").alias("topic"), "key", invoice.alias("value")),
        f.struct(f.lit("shipments").alias("topic"), "key", shipment.alias("value")),
    )
    return purchases.where("id is not null").select(f.explode(rows).alias("row")).select("row.*")


def revenue(purchases: DataFrame) -> DataFrame:
    """Return the revenue of each day. The job writes a day as soon as it has read a purchase of 30
    days later."""
    days = (
        purchases.withColumn("bought", f.to_timestamp("date", "yyyyMMdd"))
        .withWatermark("bought", "30 days")
        .groupBy(f.window("bought", "1 day"))
        .agg(f.sum("cents").alias("cents"), f.count("id").alias("purchases"))
    )
    day = f.date_format("window.start", "yyyy-MM-dd").alias("day")
    return days.select(
        day.alias("key"), f.to_json(f.struct(day, "cents", "purchases")).alias("value")
    )


def write(rows: DataFrame, sink_id: str, servers: str, checkpoints: str, **options: str) -> None:
    (
        rows.writeStream.format("oncelog")
        .queryName(sink_id)
        .outputMode("append")
        .option("kafka.bootstrap.servers", servers)
        .option("sinkId", sink_id)
        .option("checkpointLocation", f"{checkpoints}/{sink_id}")
        .options(**options)
        .start()
    )


def main(servers: str, checkpoints: str) -> None:
    spark = (
        SparkSession.builder.appName("purchases")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .getOrCreate()
    )
    spark.streams.addListener(ProgressListener())
    purchases = read_purchases(spark, servers)
    write(bills(purchases), "bills", servers, checkpoints)
    write(revenue(purchases), "revenue", servers, checkpoints, topic="revenue")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
