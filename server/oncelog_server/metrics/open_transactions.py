"""Count the open transactions of partitions by their state at the coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.metrics import table as metrics
from oncelog_server.transaction.views import TransactionViews

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

    def __init__(self, views: TransactionViews) -> None:
        self._views = views
        self._states: Mapping[int, TransactionState] = {}
        self._counts: Counter[str] = Counter()

    def add(self, producer_id: int) -> None:
        """Count the transaction of `producer_id` that is open in one partition now."""
        state = self._states.get(producer_id)
        if state is None:
            # The transaction may have begun after the states were read.
            self._states = self._views.undecided()
            state = self._states.get(producer_id)
        if state is not None:
            self._counts[state.kafka_name] += 1
        else:
            self._counts[HANGING if self._views.has_all_shards() else ELSEWHERE] += 1

    def lines(self) -> Iterator[str]:
        metric = metrics.OPEN_TRANSACTIONS
        yield metric.head()
        for state in _STATES:
            yield metric.line(self._counts[state], state)
