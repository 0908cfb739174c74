"""Names on disk: Kafka's (LogFileUtils, LocalLog, LogManager), and a few of oncelog's own."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from oncelog_server.topic_partition import TopicPartition

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

# A second suffix says what happens to the file. The four suffixes mean, in this order: the file is
# to be deleted, compaction is writing it, it is about to replace other files, another part of the
# broker is writing it.
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
# Oncelog's own: checksums of the .txnindex files, because Kafka's format has none.
TXN_INDEX_CHECKPOINT: Final = "txn-index-checkpoint"

# Files in the data directory itself.
META_PROPERTIES: Final = "meta.properties"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
# Oncelog's own: the computer's boot id at the time when all logs were last opened; see
# DataDirectory.was_kept_by.
BOOT: Final = "oncelog-boot"
LOCK: Final = ".lock"
# mkfs creates this directory in the root of a file system. A volume with nothing else counts as
# empty.
LOST_AND_FOUND: Final = "lost+found"
# Oncelog's own: the state of the logs at a clean stop.
CLOSED_LOGS_CHECKPOINT: Final = "oncelog-closed-logs-checkpoint"
# Oncelog's own: the metadata store. The names of all its files and copies begin with METADATA_NAME.
METADATA_NAME: Final = "oncelog-metadata"
METADATA_FILE: Final = f"{METADATA_NAME}.sqlite"
METADATA_COPY: Final = f"{METADATA_NAME}.txt"
METADATA_RESERVE: Final = f"{METADATA_NAME}.reserve"
# Oncelog's own: the directory belongs to a broker with its metadata in etcd. The file has the
# newest revision of the metadata that the broker had seen at its last checkpoint.
CLUSTER_REVISION: Final = "oncelog-cluster-revision"
# Oncelog's own: the socket at which the first of several brokers on one machine serves the
# metadata, and the directory with the data directories of the others.
METADATA_SOCKET: Final = f"{METADATA_NAME}.sock"
OTHER_BROKERS: Final = "brokers"
# Oncelog's own: the socket of `--allow-faults`, and the ids of the faults that have had an effect.
FAULTS_SOCKET: Final = ".faults.sock"
FAULTS_MET: Final = ".faults-met"
# Oncelog's own: the directory belongs to an import, export or format that has not ended.
MIGRATION: Final = "oncelog-migration"

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
    """The parts of the name of a log's file. `state` is "" if the file is in use."""

    offset: int
    suffix: str
    state: str


def segment_file(offset: int, suffix: str, state: str = "") -> str:
    """Return the name of a file. `offset` is the segment's base offset, or that of a snapshot."""
    return f"{offset:020d}{suffix}{state}"


def parse_segment_file(name: str) -> SegmentFile | None:
    """Return the parts of a file's name, None if the file does not belong to a segment."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None:
        return None
    return SegmentFile(int(match["offset"]), match["suffix"], match["state"] or "")


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the partition of a directory. Return None for the name of a deleted partition's
    directory, and for a name that no partition's directory has."""
    match = _PARTITION.fullmatch(name)
    if match is None or is_deleted_directory(name):
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def deleted_directory(topic: str, partition: int, unique: bytes) -> str:
    """Return the new name of a deleted partition's directory. `unique`: 16 random
    bytes.

    A long topic name is cut to the length limit of file names (LocalLog.logDeleteDirName).
    """
    return _set_aside(topic, partition, unique, "delete")


def stray_directory(topic: str, partition: int, unique: bytes) -> str:
    """Return the new name of the directory of a stray partition (LocalLog.logStrayDirName)."""
    return _set_aside(topic, partition, unique, "stray")


def _set_aside(topic: str, partition: int, unique: bytes, why: str) -> str:
    suffix = f"-{partition}.{unique.hex()}-{why}"
    return topic[: _MAX_NAME - len(suffix)] + suffix


def is_deleted_directory(name: str) -> bool:
    return _DELETED_PARTITION.fullmatch(name) is not None


def parse_stray_directory(name: str) -> TopicPartition | None:
    """Return the partition of a stray directory, None for any other name. If the topic's name is
    long, the result has only the part of it that `stray_directory` has kept."""
    match = _STRAY_PARTITION.fullmatch(name)
    if match is None:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))
