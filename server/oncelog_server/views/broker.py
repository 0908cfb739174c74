"""The read models of this broker and its cluster, for operators."""

from __future__ import annotations

import msgspec


class LogDirView(msgspec.Struct, frozen=True):
    """The data directory and the space of its disk (KIP-827). `path` is absolute; a number of bytes
    is -1 if it is unknown."""

    path: str
    total_bytes: int
    usable_bytes: int


class StoreView(msgspec.Struct, frozen=True):
    """The metadata store as this broker sees it. `silence_ms`: the time since its last response, 0
    while it responds. `is_registered`: this broker may act on its registration; otherwise it leads
    nothing."""

    silence_ms: int
    is_registered: bool


class BrokerView(msgspec.Struct, frozen=True):
    """Counts over the metadata image. `without_leader`: partitions that no broker serves.
    `imbalanced`: partitions with another leader than their preferred one, or with none. `fenced`:
    brokers that have registered and are not alive. `is_draining`: this broker stops."""

    is_controller: bool
    is_draining: bool
    brokers: int
    fenced: int
    topics: int
    partitions: int
    without_leader: int
    imbalanced: int


class ReplicationView(msgspec.Struct, frozen=True):
    """The replication of this broker's partitions. `max_lag`: the largest lag in records of a
    partition that this broker follows. The others are counts since the start: bytes fetched from
    leaders and by followers, those of replicas that a reassignment adds, and the changes of the ISR
    that this broker has proposed as a leader."""

    max_lag: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    reassigned_in: int = 0
    reassigned_out: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    failed_isr_updates: int = 0
