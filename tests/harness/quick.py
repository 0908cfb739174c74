"""Settings for both brokers. A test waits and works less with them than a user does."""

from __future__ import annotations

from typing import Final

QUICK: Final = {
    # Waits for the first rebalance of a group, the abort after a timeout, the compaction of a log.
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    # The default is 50. Apache Kafka takes as long to create these logs as to start, and scans them
    # at each start and before each compaction.
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
