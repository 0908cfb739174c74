"""Finds the partition of an internal topic that owns an id, by Java's String.hashCode as in Kafka.
This module also lists the internal topics that transactions never write to."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS

# No transaction writes to these topics, so a marker in them would end nothing.
NEVER_IN_TRANSACTIONS: Final = INTERNAL_TOPICS - {CONSUMER_OFFSETS}

# (id, number of partitions) -> the partition that owns the id.
PartitionOf: TypeAlias = Callable[[str, int], int]

# Hashes of longer ids are not cached.
_KEPT_NAME: Final = 256
# Java's Integer.MIN_VALUE.
_SMALLEST: Final = -(1 << 31)


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
    return (_hash(id_) & 0x7FFFFFFF) % partitions


def kafkas_partition_for(id_: str, partitions: int) -> int:
    """Return the partition of an id in Apache Kafka (Utils.abs, which is 0 for the smallest
    number)."""
    hashed = _hash(id_)
    return 0 if hashed == _SMALLEST else abs(hashed) % partitions


def routing_of(*, absolute_hash: bool) -> PartitionOf:
    """Return the function that finds the partition of an id in a cluster with this
    `ClusterRecord.absolute_hash`."""
    return kafkas_partition_for if absolute_hash else partition_for


def _hash(id_: str) -> int:
    hash_of = java_string_hash if len(id_) <= _KEPT_NAME else java_string_hash.__wrapped__
    return hash_of(id_)
