"""The loads of the benchmarks on running, warm brokers, by the setup of the brokers. The key is the
name of a load in the results."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import authorized, generated, java, librdkafka, tls_connections
from benchmarks.bench import KB_VALUE, SMALL_VALUE, Load
from benchmarks.rings import OF_1_MB, OF_16_KB
from benchmarks.setups import ACLS, PLAIN, TLS, Setup
from benchmarks.transactional import transactions

_PLAIN: Mapping[str, Load] = {
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

# Each of these loads also has a row without TLS, except for the loads of new connections.
_TLS: Mapping[str, Load] = {
    "tlssmall": generated.small(per_request=1),
    "tlssingle": generated.single,
    "tls16k": generated.bulk(OF_16_KB, connections=4, depth=5),
    "tls1m": generated.bulk(OF_1_MB, connections=2, depth=2),
    "tlsfetch1m": generated.fetch_1_mb,
    "tlstxn16": transactions(16, version=2),
    "rdtls1k": librdkafka.produce(KB_VALUE),
    "javatls1k": java.produce(KB_VALUE, java.DEFAULTS),
    "rdtlsconsume1k": librdkafka.consume,
    "javatlsconsume1k": java.consume,
    "tlsconnect": tls_connections.full,
    "tlsresume": tls_connections.resumed,
}

LOADS_OF: Mapping[Setup, Mapping[str, Load]] = {
    PLAIN: _PLAIN,
    ACLS: {"acl1000": authorized.small},
    TLS: _TLS,
}
LOADS: Mapping[str, Load] = {
    name: load for loads in LOADS_OF.values() for name, load in loads.items()
}


def setup_of(load: str) -> Setup:
    """Return the setup of the brokers of a load."""
    return next(setup for setup, loads in LOADS_OF.items() if load in loads)
