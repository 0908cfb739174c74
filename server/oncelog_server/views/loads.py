"""The read model of load times: how long a coordinator takes to load a partition of its internal
topic (Kafka's partition-load-time)."""

from __future__ import annotations

import msgspec


class LoadView(msgspec.Struct, frozen=True):
    """Load times in ms, over all loads since the start."""

    longest_ms: int
    average_ms: float
