"""Partitions that move to other brokers, with the name of Kafka's Java client (KIP-455)."""

from __future__ import annotations

from typing import NamedTuple


class PartitionReassignment(NamedTuple):
    """A move in progress. `replicas` has all present replicas, including the replicas to add and to
    remove."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
