"""The retries of adding a partition to a transaction for Produce v12.

A producer may begin its next transaction before the markers of the last one are written on every
broker, and the coordinator may move. In both cases the client would wait for its own back-off, or
for new metadata (franz-go: 5 s), so the broker waits for a short time instead. Kafka's
ReplicaManager.handleProduceAppend does so while the last transaction completes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode

# With several brokers: the time in ms for a coordinator to be elected and to load. A start of a
# broker takes about as long.
COORDINATOR_MS: Final = 1_000
_MOVING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


class AddingRetry(msgspec.Struct, frozen=True):
    """While the last transaction completes, the broker tries every `backoff_ms`
    (add.partitions.to.txn.retry.backoff.ms), for at most `busy_ms`
    (add.partitions.to.txn.retry.backoff.max.ms). While the coordinator moves, it tries for at most
    `moving_ms`. Each pause is then twice the one before, because many producers wait for the same
    coordinator."""

    monotonic_ms: Callable[[], int]
    backoff_ms: int
    busy_ms: int
    moving_ms: int = 0

    def is_due(self, code: ErrorCode, since_ms: int) -> bool:
        """Return True if a request that began at `since_ms` is tried again after this error."""
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            limit_ms = self.busy_ms
        elif code in _MOVING:
            limit_ms = self.moving_ms
        else:
            return False
        return self.monotonic_ms() - since_ms < limit_ms

    def pause_ms(self, code: ErrorCode, attempts: int) -> int:
        """Return the time before the next attempt. `attempts`: the number of attempts so far."""
        return self.backoff_ms << (attempts - 1 if code in _MOVING else 0)


NEVER: Final = AddingRetry(lambda: 0, 1, 0)
