"""Fetched batches become Arrow as Spark wants it, with what the ordinary decoder reads."""

from __future__ import annotations

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelog_client.spark.source.arrow_decode import COLUMN_TYPES, arrow_schema

SPARK_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(
                StructType([StructField("key", StringType()), StructField("value", BinaryType())])
            ),
        ),
    ]
)


def test_schema_is_the_one_that_spark_compares_with() -> None:
    wanted = to_arrow_schema(SPARK_SCHEMA, timezone="UTC")
    assert arrow_schema(list(COLUMN_TYPES)).equals(wanted, check_metadata=True)
