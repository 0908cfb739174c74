"""Metrics of partitions: offsets, sizes, producers and open transactions (KIP-98, KIP-664)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import WORK, Metric, label_text
from oncelog_server.metrics.open_transactions import COUNTED_PER_LINE, open_transaction_lines
from oncelog_server.partition.views import PartitionViews
from oncelog_server.transaction.views import TransactionViews
from oncelog_server.views.partitions import PartitionView, Traffic

# A transaction is late if its last write is older than transaction.max.timeout.ms plus this time,
# as in Kafka's ProducerStateManager.
LATE_AFTER_MS: Final = 300_000

# Each of these metrics has one line for every partition.
BY_PARTITION: Final[tuple[tuple[Metric, Callable[[PartitionView], int]], ...]] = (
    (metrics.LAST_STABLE_OFFSET, lambda partition: partition.last_stable_offset),
    (
        metrics.LAST_STABLE_OFFSET_LAG,
        lambda partition: partition.high_watermark - partition.last_stable_offset,
    ),
    (metrics.LOG_START_OFFSET, lambda partition: partition.log_start_offset),
    (metrics.LOG_END_OFFSET, lambda partition: partition.log_end_offset),
    (metrics.LOG_SIZE, lambda partition: partition.size_bytes),
    (metrics.LOG_SEGMENTS, lambda partition: partition.segments),
    (metrics.UNDER_REPLICATED, lambda partition: int(partition.is_under_replicated)),
)


BY_TOPIC: Final[tuple[tuple[Metric, Callable[[Traffic], int]], ...]] = (
    (metrics.MESSAGES_IN, lambda traffic: traffic.messages_in),
    (metrics.BYTES_IN, lambda traffic: traffic.bytes_in),
    (metrics.BYTES_OUT, lambda traffic: traffic.bytes_out),
)


class Totals:
    """The sums over all partitions, from one walk. `by_topic` begins with the traffic of the
    partitions that have left the broker."""

    def __init__(self, late_before_ms: int, by_topic: dict[str, Traffic]) -> None:
        self._late_before_ms = late_before_ms
        self.reassigning = 0
        self.refused = self.under_min_isr = self.at_min_isr = self.mismatches = 0
        self.count = self.leaders = self.under_replicated = self.producer_ids = self.late = 0
        self.by_topic = by_topic

    def add(self, partition: PartitionView) -> None:
        self.count += 1
        self.leaders += partition.is_leader
        self.refused += partition.refuses_writes
        self.under_replicated += partition.is_under_replicated
        self.reassigning += partition.is_reassigning
        self.under_min_isr += partition.is_under_min_isr
        self.at_min_isr += partition.is_at_min_isr
        self.mismatches += partition.mismatches
        self.producer_ids += partition.producer_ids
        topic, traffic = partition.partition.topic, partition.traffic
        before = self.by_topic.get(topic)
        self.by_topic[topic] = traffic if before is None else before.plus(traffic)
        is_late = False
        for transaction in partition.open_transactions:
            updated_ms = transaction.updated_ms
            is_late = is_late or (updated_ms is not None and updated_ms < self._late_before_ms)
        self.late += is_late

    def single(self) -> Iterator[tuple[Metric, int]]:
        """Yield the metrics without labels."""
        yield metrics.PARTITION_COUNT, self.count
        yield metrics.LEADER_COUNT, self.leaders
        yield metrics.UNDER_REPLICATED_COUNT, self.under_replicated
        yield metrics.REASSIGNING_COUNT, self.reassigning
        yield metrics.UNDER_MIN_ISR_COUNT, self.under_min_isr
        yield metrics.AT_MIN_ISR_COUNT, self.at_min_isr
        yield metrics.MISMATCHES, self.mismatches
        yield metrics.PRODUCER_ID_COUNT, self.producer_ids
        yield metrics.LATE_TRANSACTIONS, self.late


def partition_lines(
    partitions: PartitionViews, coordinated: TransactionViews, late_before_ms: int
) -> Iterator[str]:
    """Yield the lines of all partitions. `late_before_ms`: a transaction without a write since then
    is late."""
    # In one turn with the first step of `all`, which lists the partitions: a partition that leaves
    # later counts by its view.
    totals = Totals(late_before_ms, partitions.removed_traffic())
    # Two lists instead of pairs: 10,000 tuples would trigger a full garbage collection.
    shown: list[PartitionView] = []
    labels: list[str] = []
    for view in partitions.all():
        shown.append(view)
        topic, index = view.partition
        labels.append(label_text(metrics.LAST_STABLE_OFFSET.labels, (topic, str(index))))
        totals.add(view)
        yield WORK
        for _ in range(0, len(view.open_transactions), COUNTED_PER_LINE):
            yield WORK
    for metric, value in BY_PARTITION:
        yield metric.head()
        for text, view in zip(labels, shown, strict=True):
            yield f"{metric.name}{text} {value(view)}\n"
    for metric, amount in totals.single():
        yield from metric.only(amount)
    yield from metrics.OFFLINE_COUNT.only(partitions.offline_count() + totals.refused)
    yield from open_transaction_lines(coordinated, partitions, shown)
    for metric, part in BY_TOPIC:
        yield metric.head()
        for topic, traffic in totals.by_topic.items():
            yield metric.line(part(traffic), topic)
