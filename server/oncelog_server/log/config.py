"""The settings of a topic that concern its log: Kafka's names and defaults."""

from __future__ import annotations

from typing import Final

import msgspec

UNLIMITED: Final = (1 << 63) - 1

# Upper bound of index.interval.bytes. A reader scans this number of bytes of small batches in one
# or two milliseconds (scenario H67).
LONGEST_INTERVAL: Final = 64 << 10

DELETE: Final = "delete"
COMPACT: Final = "compact"
PRODUCER: Final = "producer"
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


class LogConfig(msgspec.Struct, frozen=True):
    """The settings of one log (Kafka's LogConfig). Sizes are in bytes, times in ms.

    `validate_records` is a setting that Kafka does not have (`oncelog.validate.records`): if True,
    the broker decodes every record of a batch, and does not only check its header and CRC.
    `preallocate` and `min_insync_replicas` have no effect on the log itself.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = UNLIMITED
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = PRODUCER
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    min_cleanable_dirty_ratio: float = 0.5
    min_insync_replicas: int = 1
    preallocate: bool = False
    unclean_leader_election_enable: bool = False
    validate_records: bool = False

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def deletes_by_retention(self) -> bool:
        return DELETE in self.cleanup_policy
