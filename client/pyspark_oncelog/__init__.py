"""Spark imports every package called `pyspark_...`, and registers the `DefaultSource` of the
package. In this way Spark finds `format("oncelog")`."""

from oncelog_client.spark.data_source import OncelogDataSource

DefaultSource = OncelogDataSource

__all__ = ["DefaultSource"]
