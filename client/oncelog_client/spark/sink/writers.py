"""Writers, made from the options and the schema that Spark passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink.protocol.columns import SinkColumn, check_columns
from oncelog_client.spark.sink.protocol.refusals import SinkError
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions, sink_options

from .batch_writer import BatchWriter
from .stream_writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def stream_writer(options: Options, schema: StructType) -> StreamWriter:
    """Make the writer of a stream. Raises OptionError or SinkError.

    Output mode complete appends the whole result in every batch, as in Spark's own Kafka sink,
    because a log cannot be overwritten. With this sink the whole result becomes visible at once.
    """
    return StreamWriter(_checked(sink_options(options, streaming=True), schema))


def batch_writer(options: Options, schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Make the writer of a batch. Raises OptionError or SinkError."""
    if overwrite:
        raise SinkError(
            'save mode Overwrite is not possible: a log is only appended to. Use mode("append")'
        )
    return BatchWriter(_checked(sink_options(options, streaming=False), schema))


def _checked(options: SinkOptions, schema: StructType) -> SinkOptions:
    columns = [SinkColumn(field.name, field.dataType.simpleString()) for field in schema.fields]
    check_columns(columns, options.topic)
    return options
