"""The readers and writers of `format("oncelog")`, batch and streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from oncelog_client.spark.settings.options import Options

from .prompt_worker import PromptWorker, be_prompt
from .requirements import check_pyspark

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class OncelogDataSource(DataSource):
    """The data source. Its options and columns are those of Spark's own Kafka connector.

    Spark runs this class in Python processes of the driver, never in the user's process. To find
    any data source, Spark loads all data sources, so loading this one must be fast and must not
    fail: readers and writers are imported at first use, and only the constructor raises
    UnsupportedSpark if PySpark is too old.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_pyspark()
        super().__init__(options)
        # Spark pickles this data source for the processes that plan and commit. Unpickling the
        # PromptWorker calls `be_prompt` in those processes.
        self._worker = PromptWorker()
        be_prompt()

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> StructType | str:
        from .source.readers import source_schema

        return source_schema(Options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from .source.readers import batch_reader

        return batch_reader(Options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .source.readers import stream_reader

        return stream_reader(Options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .sink.writers import batch_writer

        return batch_writer(Options(self.options), schema, overwrite=overwrite)

    # The process that commits passes `schema` and `overwrite` by keyword, so these names must stay.
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from .sink.writers import stream_writer

        return stream_writer(Options(self.options), schema)
