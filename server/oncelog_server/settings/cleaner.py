"""Honored settings of compaction: when a log is compacted, and the resources for it."""

from __future__ import annotations

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.log import FOREVER
from oncelog_server.settings.table import Kind, at_least, between, honoured

# Java's largest double: no limit.
UNLIMITED_RATE = 1.7976931348623157e308


class CleanerSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's; `topic` is the overriding topic setting."""

    log_cleaner_enable: bool = honoured(
        Kind.BOOLEAN, True, "Compact the logs of topics with cleanup.policy=compact."
    )
    log_cleaner_backoff_ms: int = honoured(
        Kind.LONG,
        15_000,
        "Interval between searches for a log to compact while none is found.",
        at_least(0),
    )
    log_cleaner_dedupe_buffer_size: int = honoured(
        Kind.LONG,
        134_217_728,
        "Memory for the map from keys to their latest offsets, 24 bytes a key. Keys that do not "
        "fit wait for the next pass.",
    )
    log_cleaner_io_buffer_load_factor: float = honoured(
        Kind.DOUBLE, 0.9, "Maximum load of the map from keys to offsets, from 0 to 1."
    )
    log_cleaner_io_buffer_size: int = honoured(
        Kind.INT, 524_288, "Bytes that compaction reads and writes at once.", at_least(0)
    )
    log_cleaner_io_max_bytes_per_second: float = honoured(
        Kind.DOUBLE, UNLIMITED_RATE, "Maximum bytes per second that compaction reads and writes."
    )
    log_cleaner_delete_retention_ms: int = honoured(
        Kind.LONG,
        86_400_000,
        "How long a compacted topic keeps tombstones and the markers of empty transactions after "
        "the first compaction that reads them.",
        at_least(0),
        topic="delete.retention.ms",
    )
    log_cleaner_min_compaction_lag_ms: int = honoured(
        Kind.LONG,
        0,
        "Age below which a record is not compacted.",
        at_least(0),
        topic="min.compaction.lag.ms",
    )
    log_cleaner_max_compaction_lag_ms: int = honoured(
        Kind.LONG,
        FOREVER,
        "Age at which a record must be compacted, even in a log with little to compact; the "
        "record's segment is closed by then.",
        at_least(1),
        topic="max.compaction.lag.ms",
    )
    log_cleaner_min_cleanable_ratio: float = honoured(
        Kind.DOUBLE,
        0.5,
        "Compaction of a log starts when this share of it is not compacted yet.",
        between(0, 1),
        topic="min.cleanable.dirty.ratio",
    )
