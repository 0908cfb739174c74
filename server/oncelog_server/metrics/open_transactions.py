"""Count the open transactions of partitions by their state at the coordinator.

The coordinator's states are read once for a page, after the partitions, in steps. A transaction may
have been decided in between. So a transaction without a state is looked up in its partition again.
If it is still open there, the coordinator did not know it when the states were read. Such a
transaction hangs, or another broker coordinates it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import WORK, as_work
from oncelog_server.partition.views import PartitionViews
from oncelog_server.transaction.views import TransactionViews
from oncelog_server.views.partitions import PartitionView

HANGING: Final = "Hanging"
ELSEWHERE: Final = "Elsewhere"
# Counting this many transactions takes about as long as a line.
COUNTED_PER_LINE: Final = 8

_STATES: Final = (
    TransactionState.ONGOING.kafka_name,
    TransactionState.PREPARE_COMMIT.kafka_name,
    TransactionState.PREPARE_ABORT.kafka_name,
    HANGING,
    ELSEWHERE,
)


def open_transaction_lines(
    coordinated: TransactionViews, partitions: PartitionViews, shown: Iterable[PartitionView]
) -> Iterator[str]:
    """Yield the lines of the open transactions in the partitions of `shown`."""
    had_all_shards = coordinated.has_all_shards()
    states = yield from as_work(coordinated.undecided())
    # A shard that was loaded or moved in the meantime may have the missing transactions.
    unknown = HANGING if had_all_shards and coordinated.has_all_shards() else ELSEWHERE
    counts: Counter[str] = Counter()
    for view in shown:
        for number, transaction in enumerate(view.open_transactions):
            if number % COUNTED_PER_LINE == 0:
                yield WORK
            state = states.get(transaction.producer_id)
            if state is not None:
                counts[state.kafka_name] += 1
            elif partitions.is_open(view.partition, transaction):
                counts[unknown] += 1
    metric = metrics.OPEN_TRANSACTIONS
    yield metric.head()
    for name in _STATES:
        yield metric.line(counts[name], name)
