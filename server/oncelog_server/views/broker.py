"""The read models of this broker and its cluster, for operators."""

from __future__ import annotations

import msgspec


class LogDirView(msgspec.Struct, frozen=True):
    """The data directory and the space of its disk (KIP-827). `path` is absolute; a number of bytes
    is -1 if it is unknown."""

    path: str
    total_bytes: int
    usable_bytes: int


class BrokerView(msgspec.Struct, frozen=True):
    """Counts over the metadata image. `without_leader`: partitions that no broker serves."""

    is_controller: bool
    brokers: int
    topics: int
    partitions: int
    without_leader: int
