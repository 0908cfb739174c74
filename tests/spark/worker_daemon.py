"""The daemon from which Spark forks its Python workers, with the data source imported already.

Each fork of Spark's own daemon imports the data source again, which takes 0.2 s of processor time,
and each query has three or more forks. After the import, this module runs `pyspark.daemon`
unchanged.
"""

import runpy

import oncelog_client.spark.data_source
import oncelog_client.spark.sink.stream_writer
import oncelog_client.spark.source.stream_reader  # noqa: F401

if __name__ == "__main__":
    runpy.run_module("pyspark.daemon", run_name="__main__")
