"""Finds the partition of an internal topic that owns an id, by Java's String.hashCode as in Kafka.
This module also lists the internal topics that transactions never write to."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS

# No transaction writes to these topics, so a marker in them would end nothing.
NEVER_IN_TRANSACTIONS: Final = INTERNAL_TOPICS - {CONSUMER_OFFSETS}

# Hashes of longer ids are not cached.
_KEPT_NAME: Final = 256


@lru_cache(maxsize=16_384)
def java_string_hash(text: str) -> int:
    """Return `String.hashCode()` as a signed 32-bit number, over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(id_: str, partitions: int) -> int:
    """Return `(id.hashCode() & 0x7fffffff) % partitions`. For example, `myProducer` belongs to
    partition 10 of 50.

    Kafka takes the absolute value of the hash, so Kafka's partition is a different one if the hash
    is negative (docs/semantics.md).
    """
    hash_of = java_string_hash if len(id_) <= _KEPT_NAME else java_string_hash.__wrapped__
    return (hash_of(id_) & 0x7FFFFFFF) % partitions
