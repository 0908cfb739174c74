"""Honoured settings of compaction: when a log is cleaned, and what that may use."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_server.settings.log import FOREVER
from oncelog_server.settings.table import Kind, at_least, between, honoured

# Java's largest double: no limit.
UNLIMITED_RATE = 1.7976931348623157e308


@dataclass(frozen=True)
class CleanerSettings:
    """Names, defaults and ranges are Kafka 4.3's; `topic` is what overrides the default."""

    log_cleaner_enable: bool = honoured(
        Kind.BOOLEAN, True, "Compact the logs of topics with cleanup.policy=compact."
    )
    log_cleaner_backoff_ms: int = honoured(
        Kind.LONG, 15_000, "How often is looked for a log to compact, if none was.", at_least(0)
    )
    log_cleaner_dedupe_buffer_size: int = honoured(
        Kind.LONG,
        134_217_728,
        "Memory for the map from keys to their latest offsets, 24 bytes a key. What does not fit "
        "waits for the next pass.",
    )
    log_cleaner_io_buffer_load_factor: float = honoured(
        Kind.DOUBLE, 0.9, "How full that map may get, from 0 to 1."
    )
    log_cleaner_io_buffer_size: int = honoured(
        Kind.INT, 524_288, "Bytes read and written at once.", at_least(0)
    )
    log_cleaner_io_max_bytes_per_second: float = honoured(
        Kind.DOUBLE, UNLIMITED_RATE, "Bytes read and written per second at most."
    )
    log_cleaner_delete_retention_ms: int = honoured(
        Kind.LONG,
        86_400_000,
        "How long a compacted topic keeps deletion marks and the ends of empty transactions after "
        "it was first compacted with them.",
        at_least(0),
        topic="delete.retention.ms",
    )
    log_cleaner_min_compaction_lag_ms: int = honoured(
        Kind.LONG,
        0,
        "How long a record is safe from compaction.",
        at_least(0),
        topic="min.compaction.lag.ms",
    )
    log_cleaner_max_compaction_lag_ms: int = honoured(
        Kind.LONG,
        FOREVER,
        "After how long a record must be compacted, however clean its log is otherwise; its "
        "segment is closed by then.",
        at_least(1),
        topic="max.compaction.lag.ms",
    )
    log_cleaner_min_cleanable_ratio: float = honoured(
        Kind.DOUBLE,
        0.5,
        "Share of a log not yet compacted that starts compaction.",
        between(0, 1),
        topic="min.cleanable.dirty.ratio",
    )
