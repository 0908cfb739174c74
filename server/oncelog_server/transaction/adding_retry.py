"""The retries of adding a partition while the producer's last transaction completes.

A producer may begin its next transaction before the markers of the last one are written on every
broker. The client of Produce v12 would then wait for its own back-off, or for new metadata, so the
broker waits for a short time instead (Kafka's ReplicaManager.handleProduceAppend).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec


class AddingRetry(msgspec.Struct, frozen=True):
    """Attempts every `backoff_ms` (add.partitions.to.txn.retry.backoff.ms), for at most `max_ms`
    (add.partitions.to.txn.retry.backoff.max.ms)."""

    monotonic_ms: Callable[[], int]
    backoff_ms: int
    max_ms: int

    def until_ms(self) -> int:
        """Return the end of the attempts that begin now."""
        return self.monotonic_ms() + self.max_ms


NEVER: Final = AddingRetry(lambda: 0, 1, 0)
