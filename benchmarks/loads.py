"""The loads of the benchmarks on running, warm brokers. The key is the name of a load in the
results."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import generated, java, librdkafka
from benchmarks.bench import KB_VALUE, SMALL_VALUE, Load
from benchmarks.rings import OF_1_MB, OF_16_KB
from benchmarks.transactional import transactions

LOADS: Mapping[str, Load] = {
    # The loads with the most requests come first, because they warm a JVM up sooner.
    "small": generated.small(per_request=1),
    "small8": generated.small(per_request=8),
    "idem": generated.idempotent(per_request=1),
    "idem8": generated.idempotent(per_request=8),
    "rd100": librdkafka.produce(SMALL_VALUE),
    "rdidem100": librdkafka.produce(SMALL_VALUE, "--idempotent"),
    "java100": java.produce(SMALL_VALUE, java.PLAIN),
    "javaidem100": java.produce(SMALL_VALUE, java.DEFAULTS),
    "single": generated.single,
    "rdsingle": librdkafka.single,
    "produce16k": generated.bulk(OF_16_KB, connections=4, depth=5),
    "produce1m": generated.bulk(OF_1_MB, connections=2, depth=2),
    "rd1k": librdkafka.produce(KB_VALUE),
    "java1k": java.produce(KB_VALUE, java.DEFAULTS),
    "fetch1m": generated.fetch_1_mb,
    "consume1k": librdkafka.consume,
    "javaconsume1k": java.consume,
    "txn1": transactions(1, version=2),
    "txn16": transactions(16, version=2),
    "txn16p8": transactions(16, version=2, partitions=8),
    "txn1v1": transactions(1, version=1),
    "txn16v1": transactions(16, version=1),
    "rdtxn": librdkafka.transactions,
    "javatxn": java.transactions,
    "lost": librdkafka.lost_to_transactions,
}
