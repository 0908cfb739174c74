"""Settings for both brokers. With them, a test waits less and needs less processor time than with
the defaults."""

from __future__ import annotations

from typing import Final

QUICK: Final = {
    # The brokers' waits before the first rebalance of a group, before the abort of a transaction
    # that has timed out, and before the compaction of a log.
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    # The default is 50. Apache Kafka takes as long to create 50 logs as to start, and scans them
    # at each start and before each compaction.
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
