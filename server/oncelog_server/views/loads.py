"""The times in which a coordinator loaded partitions of its internal topic (Kafka's
partition-load-time)."""

from __future__ import annotations

import msgspec


class LoadView(msgspec.Struct, frozen=True):
    """In ms, since the start."""

    longest_ms: int
    average_ms: float
