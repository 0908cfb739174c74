"""Strays: directories of partitions that do not belong to this broker any more, and other leftovers
of a killed process.

A crash leaves strays if it comes after the deletion of a topic from the store and before the
deletion of the topic's files. As in Kafka, strays are not deleted but put aside under another name.
They are put aside only if the store records that the topic was deleted, or that the partition has
moved to other brokers. A directory that is unknown to the store shows that the store is out of
date. If the deletion of a directory had begun before the crash, the directory is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_partition_metadata
from oncelog_server.log.whole_files import read_whole
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    BOOT,
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    CLOSED_LOGS_CHECKPOINT,
    CLUSTER_REVISION,
    DELETED_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    MIGRATION,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TEMPORARY_SUFFIX,
    is_deleted_directory,
    parse_partition_directory,
    parse_stray_directory,
    stray_directory,
)
from oncelog_server.topic_partition import TopicPartition

# Temporary files. A process leaves one behind if it ends before it has renamed the file.
_UNFINISHED: Final = frozenset(
    name + TEMPORARY_SUFFIX
    for name in (
        BOOT,
        CLEANER_CHECKPOINT,
        CLEAN_SHUTDOWN,
        CLOSED_LOGS_CHECKPOINT,
        CLUSTER_REVISION,
        HIGH_WATERMARK_CHECKPOINT,
        LOG_START_CHECKPOINT,
        META_PROPERTIES,
        MIGRATION,
        RECOVERY_POINT_CHECKPOINT,
    )
)


class _Place(Enum):
    HERE = "here"
    # The image assigns the partition to other brokers.
    ELSEWHERE = "elsewhere"
    DELETED = "deleted"
    UNKNOWN = "unknown"
    # The directory is no partition, although its name looks like one.
    NOTHING = "nothing"


# The reasons to put a directory aside, as the log event shows them.
_REASONS: Final = {
    _Place.DELETED: "the topic was deleted",
    _Place.ELSEWHERE: "the metadata assigns the partition to other brokers",
    _Place.UNKNOWN: "the metadata does not have the partition, and no record of its deletion",
}


class Stray(NamedTuple):
    """A directory to put aside, with the reason for the operator."""

    name: str
    partition: TopicPartition
    reason: str


class Folders(msgspec.Struct):
    """The directories and leftover files that the data directory holds.

    `leaving` are those with a deletion that has begun. `unfinished` are temporary files that were
    never completed. `put_strays_aside` empties `unfinished`, except for files that the disk refuses
    to rename. `strays` are to be put aside. `unknown` are partitions that the store does not know.
    `remembered` are the ids of deleted topics with strays, and of the topics with directories that
    earlier starts have put aside.
    """

    leaving: list[str] = msgspec.field(default_factory=list)
    unfinished: list[str] = msgspec.field(default_factory=list)
    strays: list[Stray] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)
    remembered: set[bytes] = msgspec.field(default_factory=set)
    # Directories with the image's topic id in their partition.metadata.
    checked: set[str] = msgspec.field(default_factory=set)

    def take_unknown_as_strays(self) -> None:
        """Make strays of the directories that the store does not know."""
        for name in self.unknown:
            partition = parse_partition_directory(name)
            if partition is not None:
                self.strays.append(Stray(name, partition, _REASONS[_Place.UNKNOWN]))
        self.unknown = []


def look_at_folders(files: Files, image: ClusterImage, broker_id: int) -> Folders:
    """Return the directories by kind. Nothing is changed. Raises StorageError."""
    found = Folders()
    for name in files.list(""):
        if name in _UNFINISHED:
            found.unfinished.append(name)
        elif is_deleted_directory(name) or name.removesuffix(DELETED_SUFFIX) in _UNFINISHED:
            found.leaving.append(name)
        elif parse_stray_directory(name) is not None:
            topic_id = _topic_id(files, name)
            if topic_id is not None:
                found.remembered.add(topic_id)
        elif (partition := parse_partition_directory(name)) is not None:
            place = _place(files, name, partition, image, broker_id, found)
            if place in (_Place.DELETED, _Place.ELSEWHERE):
                found.strays.append(Stray(name, partition, _REASONS[place]))
            elif place is _Place.UNKNOWN:
                found.unknown.append(name)
    return found


def put_strays_aside(
    files: Files, folders: Folders, new_uuid: Callable[[], bytes]
) -> list[tuple[Stray, str]]:
    """Put the strays aside. Return each with its new name. Raises StorageError.

    Unfinished checkpoints and the directories of interrupted deletions are deleted.
    """
    moved = []
    for stray in folders.strays:
        aside = stray_directory(*stray.partition, new_uuid())
        files.rename(stray.name, aside)
        moved.append((stray, aside))
    leaving = list(folders.leaving)
    for name in list(folders.unfinished):
        # The file is renamed first, because the next checkpoint may be written before the deletion.
        # If a full disk refuses the rename, the file stays until the disk accepts the next write of
        # the same checkpoint, because that write uses the same temporary name.
        with suppress(StorageError):
            files.rename(name, name + DELETED_SUFFIX)
            folders.unfinished.remove(name)
            leaving.append(name + DELETED_SUFFIX)
    if leaving:
        files.remove(leaving)
    return moved


def _place(
    files: Files,
    name: str,
    partition: TopicPartition,
    image: ClusterImage,
    broker_id: int,
    found: Folders,
) -> _Place:
    """Return the place that the image assigns to a directory's partition. If the directory has a
    topic id, the id and not the name identifies the topic."""
    known = image.partition(*partition)
    topic_id = _topic_id(files, name)
    if known is not None and topic_id in (None, known.topic_id):
        if topic_id is not None:
            found.checked.add(name)
        # A partition without a record has no replicas, and its directory must stay.
        is_here = broker_id in known.replicas or not known.replicas
        return _Place.HERE if is_here else _Place.ELSEWHERE
    if topic_id is None:
        # Without a topic id, only the name identifies the partition.
        topic_id = _deleted_id(image, partition)
        if topic_id is None:
            return _Place.UNKNOWN if _has_log(files, name) else _Place.NOTHING
    if topic_id not in image.deletions:
        return _Place.UNKNOWN
    found.remembered.add(topic_id)
    return _Place.DELETED


def is_of_topic(files: Files, directory: str, topic_id: bytes) -> bool:
    """Return True if a directory has the topic's id, or no readable topic id."""
    return _topic_id(files, directory) in (None, topic_id)


def _topic_id(files: Files, name: str) -> bytes | None:
    """Return the topic id in a directory, None if its file is missing or damaged."""
    try:
        data = read_whole(files, f"{name}/{PARTITION_METADATA}")
        return None if data is None else decode_partition_metadata(data)
    except MalformedCheckpoint:
        return None


def _deleted_id(image: ClusterImage, partition: TopicPartition) -> bytes | None:
    for topic_id, deletion in image.deletions.items():
        if deletion.name == partition.topic and partition.partition < deletion.partitions:
            return topic_id
    return None


def _has_log(files: Files, name: str) -> bool:
    try:
        return any(file.endswith(LOG_SUFFIX) for file in files.list(name))
    except StorageError:  # `name` is a file, not a directory
        return False
