"""Honored settings of logs: the defaults of topics, retention, flushing, checkpoints."""

from __future__ import annotations

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, at_least, between, honoured, one_of

HIGH = Importance.HIGH
FOREVER = 2**63 - 1
CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SMALLEST_SEGMENT = 1 << 20
# The minimum of segment.bytes up to Kafka 3: the size of an empty record of the oldest format. It
# still applies to topics of an older release, and to `internal.segment.bytes`, a setting for tests.
SMALLEST_STORED_SEGMENT = 14


def gzip_level(value: int) -> str | None:
    """Return the reason why `value` is not a compression level of gzip, None if it is one (Kafka's
    GzipLevelValidator)."""
    return (
        None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"
    )


class LogSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's; `topic` is the overriding topic setting."""

    log_segment_bytes: int = honoured(
        Kind.INT,
        1_073_741_824,
        "Size of a segment in bytes at which a new one begins.",
        at_least(SMALLEST_SEGMENT),
        importance=HIGH,
        topic="segment.bytes",
    )
    log_roll_ms: int | None = honoured(
        Kind.LONG,
        None,
        "Age of a segment at which a new one begins; log.roll.hours if not set.",
        importance=HIGH,
        topic="segment.ms",
    )
    log_roll_hours: int = honoured(
        Kind.INT, 168, "log.roll.ms in hours.", at_least(1), importance=HIGH, topic="segment.ms"
    )
    log_roll_jitter_ms: int | None = honoured(
        Kind.LONG,
        None,
        "Maximum of the random time that is subtracted from log.roll.ms; log.roll.jitter.hours if "
        "not set.",
        importance=HIGH,
        topic="segment.jitter.ms",
    )
    log_roll_jitter_hours: int = honoured(
        Kind.INT,
        0,
        "log.roll.jitter.ms in hours.",
        at_least(0),
        importance=HIGH,
        topic="segment.jitter.ms",
    )
    log_retention_ms: int | None = honoured(
        Kind.LONG,
        None,
        "Age at which segments are deleted; -1: never. log.retention.minutes if not set.",
        importance=HIGH,
        topic="retention.ms",
    )
    log_retention_minutes: int | None = honoured(
        Kind.INT,
        None,
        "log.retention.ms in minutes; log.retention.hours if not set.",
        importance=HIGH,
        topic="retention.ms",
    )
    log_retention_hours: int = honoured(
        Kind.INT, 168, "log.retention.ms in hours.", importance=HIGH, topic="retention.ms"
    )
    log_retention_bytes: int = honoured(
        Kind.LONG,
        -1,
        "Size of a partition above which its oldest segments are deleted; -1: never.",
        importance=HIGH,
        topic="retention.bytes",
    )
    log_retention_check_interval_ms: int = honoured(
        Kind.LONG, 300_000, "How often retention is applied.", at_least(1)
    )
    log_segment_delete_delay_ms: int = honoured(
        Kind.LONG,
        60_000,
        "How long the files of a deleted segment stay on disk.",
        at_least(0),
        importance=HIGH,
        topic="file.delete.delay.ms",
    )
    log_cleanup_policy: tuple[str, ...] = honoured(
        Kind.LIST,
        ("delete",),
        "delete: old segments are deleted (retention). compact: only the latest record of each key "
        "stays, and records need a key. Or both.",
        topic="cleanup.policy",
        entry=one_of("compact", "delete"),
    )
    log_index_size_max_bytes: int = honoured(
        Kind.INT,
        10_485_760,
        "Size at which an index is full and a new segment begins.",
        at_least(4),
        topic="segment.index.bytes",
    )
    log_index_interval_bytes: int = honoured(
        Kind.INT,
        4096,
        "Bytes between two entries of an index. Larger values than 65536 count as 65536, because "
        "readers scan the records between two entries.",
        at_least(0),
        topic="index.interval.bytes",
    )
    log_flush_interval_messages: int = honoured(
        Kind.LONG,
        FOREVER,
        "Number of records after which a partition is fsynced.",
        at_least(1),
        importance=HIGH,
        topic="flush.messages",
    )
    log_flush_interval_ms: int | None = honoured(
        Kind.LONG,
        None,
        "Time after a write at which a partition is fsynced; log.flush.scheduler.interval.ms if "
        "not set.",
        importance=HIGH,
        topic="flush.ms",
    )
    log_flush_scheduler_interval_ms: int = honoured(
        Kind.LONG,
        FOREVER,
        "Value of log.flush.interval.ms if that is not set. Every second, the broker looks for "
        "partitions that are due for an fsync.",
        importance=HIGH,
        topic="flush.ms",
    )
    log_flush_offset_checkpoint_interval_ms: int = honoured(
        Kind.INT, 60_000, "How often recovery points are written.", at_least(0), importance=HIGH
    )
    log_preallocate: bool = honoured(
        Kind.BOOLEAN,
        False,
        "No effect. With true, Kafka preallocates the file of a new segment.",
        topic="preallocate",
    )
    log_message_timestamp_type: str = honoured(
        Kind.STRING,
        "CreateTime",
        "CreateTime: the producer's timestamps; LogAppendTime: the broker's.",
        one_of("CreateTime", "LogAppendTime"),
        topic="message.timestamp.type",
    )
    log_message_timestamp_before_max_ms: int = honoured(
        Kind.LONG,
        FOREVER,
        "How far in the past the timestamp of a record may be.",
        at_least(0),
        topic="message.timestamp.before.max.ms",
    )
    log_message_timestamp_after_max_ms: int = honoured(
        Kind.LONG,
        3_600_000,
        "How far in the future the timestamp of a record may be.",
        at_least(0),
        topic="message.timestamp.after.max.ms",
    )
    message_max_bytes: int = honoured(
        Kind.INT,
        1_048_588,
        "Maximum size of a record batch in bytes.",
        at_least(0),
        importance=HIGH,
        topic="max.message.bytes",
    )
    compression_type: str = honoured(
        Kind.STRING,
        "producer",
        "The codec of stored batches; producer: the codec of the producer.",
        one_of(*CODECS),
        importance=HIGH,
        topic="compression.type",
    )
    compression_gzip_level: int = honoured(
        Kind.INT,
        -1,
        "Level of gzip, if compression.type is gzip.",
        gzip_level,
        topic="compression.gzip.level",
    )
    compression_lz4_level: int = honoured(
        Kind.INT,
        9,
        "Level of lz4, if compression.type is lz4.",
        between(1, 17),
        topic="compression.lz4.level",
    )
    compression_zstd_level: int = honoured(
        Kind.INT,
        3,
        "Level of zstd, if compression.type is zstd.",
        between(-131072, 22),
        topic="compression.zstd.level",
    )
    min_insync_replicas: int = honoured(
        Kind.INT,
        1,
        "Replicas that must be in sync for acks=all, at most as many as the topic has.",
        at_least(1),
        importance=HIGH,
        topic="min.insync.replicas",
    )
    unclean_leader_election_enable: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Allow a replica that is not in sync to become leader. On one broker there is no other "
        "replica.",
        importance=HIGH,
        topic="unclean.leader.election.enable",
    )
