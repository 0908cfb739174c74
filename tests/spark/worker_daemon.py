"""The daemon from which Spark forks its Python workers, with the data source imported already.

Each fork of Spark's own daemon imports the data source again, and generates the codecs of its
requests, which takes 0.3 s of processor time. Each query has three or more forks. This module does
both once, and then runs `pyspark.daemon` unchanged.
"""

import gc
import runpy
from importlib import import_module

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.codecs import decoder, encoder

MODULES = (
    "oncelog_client.admin.configs",
    "oncelog_client.admin.transactions",
    "oncelog_client.spark.data_source",
    "oncelog_client.spark.sink.group_commit",
    "oncelog_client.spark.sink.stream_writer",
    "oncelog_client.spark.sink.writers",
    "oncelog_client.spark.source.stream_reader",
    "oncelog_client.transaction.shared_transactions",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.worker",
)


# The requests of most forks.
REQUESTS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.END_TXN,
    ApiKey.LIST_OFFSETS,
    ApiKey.FETCH,
)


def main() -> None:
    for module in MODULES:
        import_module(module)
    for api in map(APIS.__getitem__, REQUESTS):
        encoder(api.request, api.latest)
        decoder(api.response, api.latest)
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")


if __name__ == "__main__":
    main()
