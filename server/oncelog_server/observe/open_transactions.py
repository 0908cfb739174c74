"""Count the open transactions of partitions by their state at the coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.observe import metrics
from oncelog_server.transaction.coordinator import TransactionCoordinator

HANGING: Final = "Hanging"
ELSEWHERE: Final = "Elsewhere"

_STATES: Final = (
    TransactionState.ONGOING.kafka_name,
    TransactionState.PREPARE_COMMIT.kafka_name,
    TransactionState.PREPARE_ABORT.kafka_name,
    HANGING,
    ELSEWHERE,
)


class OpenTransactions:
    """Counts open transactions of partitions by state."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator
        self._states: dict[int, str] | None = None
        self._counts: Counter[str] = Counter()

    def add(self, producer_id: int) -> None:
        """Count the transaction that is open in a partition now."""
        state = (self._states or {}).get(producer_id)
        if state is None:
            # It may have begun since the states were read.
            self._states = self._look()
            state = self._states.get(producer_id)
        if state is None:
            state = HANGING if self._coordinator.has_all_shards else ELSEWHERE
        self._counts[state] += 1

    def _look(self) -> dict[int, str]:
        return {
            live.metadata.producer_id: live.metadata.state.kafka_name
            for _, shard in self._coordinator.runtime.shards()
            for lives in (shard.ongoing, shard.prepared)
            for live in lives.values()
        }

    def lines(self) -> Iterator[str]:
        metric = metrics.OPEN_TRANSACTIONS
        yield metric.head()
        for state in _STATES:
            yield metric.line(self._counts[state], state)
