"""Options and schema, as Spark gives them, made into writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_client.spark.options import Options

from .sink_options import sink_options
from .stream_writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def stream_writer(options: Options, schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Raises OptionError."""
    return StreamWriter(sink_options(options, streaming=True))
