"""Settings of either broker with which a test waits and works less than a user does."""

from __future__ import annotations

from typing import Final

QUICK: Final = {
    # Waits: for the first rebalance of a group, the abort at a timeout, the compaction of a log.
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    # 50 each by default: Apache Kafka needs as long to create their logs as to start, and looks
    # through them at each start and before each compaction.
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
