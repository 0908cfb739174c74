"""Honoured settings of logs: the defaults of topics, retention, flushing, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_server.settings.table import Importance, Kind, at_least, between, honoured, one_of

HIGH = Importance.HIGH
FOREVER = 2**63 - 1
CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SMALLEST_SEGMENT = 1 << 20
# Up to Kafka 3 an empty record of the oldest format: what an older release of ours has stored, and
# what Kafka's tests and ours set by an internal name, is honoured down to this.
SMALLEST_STORED_SEGMENT = 14


def gzip_level(value: int) -> str | None:
    """Kafka's GzipLevelValidator: 1..9 or -1."""
    return (
        None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `Settings` has all of these
class LogSettings:
    """Names, defaults and ranges are Kafka 4.3's; `topic` is what overrides the default."""

    log_segment_bytes: int = honoured(
        Kind.INT,
        1_073_741_824,
        "The size at which a new segment is begun.",
        at_least(SMALLEST_SEGMENT),
        importance=HIGH,
        topic="segment.bytes",
    )
    log_roll_ms: int | None = honoured(
        Kind.LONG,
        None,
        "The age at which a new segment is begun; log.roll.hours if not set.",
        at_least(1),
        importance=HIGH,
        topic="segment.ms",
    )
    log_roll_hours: int = honoured(
        Kind.INT, 168, "log.roll.ms in hours.", at_least(1), importance=HIGH, topic="segment.ms"
    )
    log_roll_jitter_ms: int | None = honoured(
        Kind.LONG,
        None,
        "At most this much is taken off log.roll.ms at random; log.roll.jitter.hours if not set.",
        at_least(0),
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
        "Segments older than this are deleted; -1: never. log.retention.minutes if not set.",
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
        "A partition's oldest segments are deleted when it is larger; -1: never.",
        importance=HIGH,
        topic="retention.bytes",
    )
    log_retention_check_interval_ms: int = honoured(
        Kind.LONG, 300_000, "How often retention is applied.", at_least(1)
    )
    log_segment_delete_delay_ms: int = honoured(
        Kind.LONG,
        60_000,
        "How long a deleted segment's files stay.",
        at_least(0),
        importance=HIGH,
        topic="file.delete.delay.ms",
    )
    log_cleanup_policy: tuple[str, ...] = honoured(
        Kind.LIST,
        ("delete",),
        "delete: old segments go (retention). compact: of every key the latest record stays, and "
        "records need a key. Or both.",
        one_of("compact", "delete"),
        topic="cleanup.policy",
    )
    log_index_size_max_bytes: int = honoured(
        Kind.INT,
        10_485_760,
        "The size at which an index is full and a new segment is begun.",
        at_least(4),
        topic="segment.index.bytes",
    )
    log_index_interval_bytes: int = honoured(
        Kind.INT,
        4096,
        "Bytes between two entries of an index. Never more than 65536, whatever is set: readers "
        "walk over what is between them.",
        at_least(0),
        topic="index.interval.bytes",
    )
    log_flush_interval_messages: int = honoured(
        Kind.LONG,
        FOREVER,
        "Records after which a partition is fsynced.",
        at_least(1),
        importance=HIGH,
        topic="flush.messages",
    )
    log_flush_interval_ms: int | None = honoured(
        Kind.LONG,
        None,
        "Time after which a written partition is fsynced; log.flush.scheduler.interval.ms if not "
        "set.",
        importance=HIGH,
        topic="flush.ms",
    )
    log_flush_scheduler_interval_ms: int = honoured(
        Kind.LONG,
        FOREVER,
        "How often is looked for partitions to fsync.",
        importance=HIGH,
        topic="flush.ms",
    )
    log_flush_offset_checkpoint_interval_ms: int = honoured(
        Kind.INT, 60_000, "How often recovery points are written.", at_least(0), importance=HIGH
    )
    log_preallocate: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Kafka reserves a segment's space on Windows with it; here it changes nothing.",
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
        "A record's timestamp may lie at most this far in the past.",
        at_least(0),
        topic="message.timestamp.before.max.ms",
    )
    log_message_timestamp_after_max_ms: int = honoured(
        Kind.LONG,
        3_600_000,
        "A record's timestamp may lie at most this far in the future.",
        at_least(0),
        topic="message.timestamp.after.max.ms",
    )
    message_max_bytes: int = honoured(
        Kind.INT,
        1_048_588,
        "The largest record batch.",
        at_least(0),
        importance=HIGH,
        topic="max.message.bytes",
    )
    compression_type: str = honoured(
        Kind.STRING,
        "producer",
        "The codec batches are stored in; producer: as they came.",
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
        "Replicas that must be in sync for acks=all; never more than the topic has.",
        at_least(1),
        importance=HIGH,
        topic="min.insync.replicas",
    )
    unclean_leader_election_enable: bool = honoured(
        Kind.BOOLEAN,
        False,
        "A replica that is not in sync may become leader; there is no other replica on one broker.",
        importance=HIGH,
        topic="unclean.leader.election.enable",
    )
