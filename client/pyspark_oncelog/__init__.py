"""Spark imports every package called `pyspark_...` and takes its `DefaultSource`: this is how it
finds `format("oncelog")`."""

from oncelog_client.spark.data_source import OncelogDataSource

DefaultSource = OncelogDataSource

__all__ = ["DefaultSource"]
