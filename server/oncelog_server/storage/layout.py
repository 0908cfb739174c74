"""Names on disk, all of them Kafka's (LogFileUtils, LocalLog, LogManager)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

# Second suffixes: a file on its way out, written by compaction, about to take its place.
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
# Ours: Kafka's txnindex has no checksum of its own.
TXN_INDEX_CHECKPOINT: Final = "txn-index-checkpoint"

# In the data directory itself.
META_PROPERTIES: Final = "meta.properties"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
# Ours: until which boot of the computer all logs were opened; see DataDirectory.was_kept_by.
BOOT: Final = "oncelog-boot"
LOCK: Final = ".lock"
# What mkfs leaves in the root of a file system: a volume with nothing else in it is empty.
LOST_AND_FOUND: Final = "lost+found"
# Ours: what a clean stop remembers of the logs.
CLOSED_LOGS_CHECKPOINT: Final = "oncelog-closed-logs-checkpoint"
# Ours: the metadata store. Every file of it, and of its copies, begins with METADATA_NAME.
METADATA_NAME: Final = "oncelog-metadata"
METADATA_FILE: Final = f"{METADATA_NAME}.sqlite"
METADATA_COPY: Final = f"{METADATA_NAME}.txt"
METADATA_RESERVE: Final = f"{METADATA_NAME}.reserve"

_MAX_NAME: Final = 255
_SEGMENT_FILE = re.compile(
    r"(?P<offset>\d{20})(?P<suffix>\.(?:log|index|timeindex|txnindex|snapshot))"
    r"(?P<state>\.deleted|\.cleaned|\.swap|\.tmp)?"
)
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9]\d{0,9})")
_DELETED_PARTITION = re.compile(r".+\.[0-9a-f]{32}-delete")
_STRAY_PARTITION = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9]\d{0,9})\.[0-9a-f]{32}-stray"
)


class SegmentFile(NamedTuple):
    """What the name of a file of a log says. `state` is "" for one in use."""

    offset: int
    suffix: str
    state: str


class TopicPartition(NamedTuple):
    topic: str
    partition: int


def segment_file(offset: int, suffix: str, state: str = "") -> str:
    """`offset` is the segment's base offset, or the offset a snapshot was taken at."""
    return f"{offset:020d}{suffix}{state}"


def parse_segment_file(name: str) -> SegmentFile | None:
    """None for files that belong to the log but to no segment, and for strangers."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None:
        return None
    return SegmentFile(int(match["offset"]), match["suffix"], match["state"] or "")


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """None for anything that is not a partition in use: deleted ones, other directories."""
    match = _PARTITION.fullmatch(name)
    if match is None or is_deleted_directory(name):
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def deleted_directory(topic: str, partition: int, unique: bytes) -> str:
    """What a deleted partition's directory is renamed to; `unique` are 16 random bytes. Long topic
    names are cut so that the name stays one (LocalLog.logDeleteDirName)."""
    return _set_aside(topic, partition, unique, "delete")


def stray_directory(topic: str, partition: int, unique: bytes) -> str:
    """What the directory of a partition of no topic is renamed to (LocalLog.logStrayDirName)."""
    return _set_aside(topic, partition, unique, "stray")


def _set_aside(topic: str, partition: int, unique: bytes, why: str) -> str:
    suffix = f"-{partition}.{unique.hex()}-{why}"
    return topic[: _MAX_NAME - len(suffix)] + suffix


def is_deleted_directory(name: str) -> bool:
    return _DELETED_PARTITION.fullmatch(name) is not None


def parse_stray_directory(name: str) -> TopicPartition | None:
    """None for anything that was not put aside. A long topic name may have been cut."""
    match = _STRAY_PARTITION.fullmatch(name)
    if match is None:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))
