"""Readers, made from the options and the schema that Spark passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_client.spark.settings.client_settings import client_setup
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.source.plan.schema import SourceColumn, ddl, projection
from oncelog_client.spark.source.plan.source_options import include_headers, source_options
from oncelog_client.spark.source.plan.subscriptions import read_subscription

from .batch_reader import BatchReader
from .stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def source_schema(options: Options) -> str:
    """Return the schema for a query without a schema of its own. Raises OptionError, also for
    options that a reader would refuse later."""
    read_subscription(options)
    client_setup(options, "source", "consumer")
    return ddl(include_headers=include_headers(options))


def batch_reader(options: Options, schema: StructType) -> BatchReader:
    """Make the reader of a batch. Raises OptionError or SchemaError."""
    return BatchReader(source_options(options, streaming=False), _columns(schema))


def stream_reader(options: Options, schema: StructType) -> StreamReader:
    """Make the reader of a stream. Raises OptionError or SchemaError."""
    return StreamReader(source_options(options, streaming=True), _columns(schema))


def _columns(schema: StructType) -> tuple[str, ...]:
    return projection(
        [
            SourceColumn(field.name, field.dataType.simpleString(), field.nullable)
            for field in schema.fields
        ]
    )
