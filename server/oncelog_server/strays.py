"""Directories of partitions that belong to no topic any more: a crash came between the deletion of
a topic in the store and that of its files.

They are put aside under another name, as Kafka does, not removed; and only where the store knows
that the topic was deleted or has moved to other brokers. A directory that the store knows nothing
of shows that the store is not what it was. What was on its way out already is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_partition_metadata
from oncelog_server.log.whole_files import read_whole
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    TopicPartition,
    is_deleted_directory,
    parse_partition_directory,
    parse_stray_directory,
    stray_directory,
)


class _Place(Enum):
    HERE = "here"
    # Deleted, or on other brokers.
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"
    # No partition, whatever its name.
    NOTHING = "nothing"


class Folders(msgspec.Struct):
    """What a look at the data directory found. `unknown` are partitions of which the store knows
    nothing, `remembered` the deleted topics of which something is still here."""

    leaving: list[str] = msgspec.field(default_factory=list)
    strays: list[tuple[str, TopicPartition]] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)
    remembered: set[bytes] = msgspec.field(default_factory=set)
    # Those of which partition.metadata has the id that the image has.
    checked: set[str] = msgspec.field(default_factory=set)


def look_at_folders(files: Files, image: ClusterImage, broker_id: int) -> Folders:
    """Changes nothing. Raises StorageError."""
    found = Folders()
    for name in files.list(""):
        if is_deleted_directory(name):
            found.leaving.append(name)
        elif parse_stray_directory(name) is not None:
            topic_id = _topic_id(files, name)
            if topic_id is not None:
                found.remembered.add(topic_id)
        elif (partition := parse_partition_directory(name)) is not None:
            place = _place(files, name, partition, image, broker_id, found)
            if place is _Place.ELSEWHERE:
                found.strays.append((name, partition))
            elif place is _Place.UNKNOWN:
                found.unknown.append(name)
    return found


def put_strays_aside(
    files: Files, folders: Folders, new_uuid: Callable[[], bytes]
) -> list[tuple[str, str]]:
    """(old name, new name) of each directory put aside. Raises StorageError."""
    moved = []
    for name, partition in folders.strays:
        aside = stray_directory(*partition, new_uuid())
        files.rename(name, aside)
        moved.append((name, aside))
    if folders.leaving:
        files.remove(folders.leaving)
    return moved


def _place(
    files: Files,
    name: str,
    partition: TopicPartition,
    image: ClusterImage,
    broker_id: int,
    found: Folders,
) -> _Place:
    """Where the image puts this very partition; its topic id is in its own file."""
    known = image.partition(*partition)
    topic_id = _topic_id(files, name)
    if known is not None and topic_id in (None, known.topic_id):
        if topic_id is not None:
            found.checked.add(name)
        return _Place.HERE if broker_id in known.replicas else _Place.ELSEWHERE
    if topic_id is None:
        # Only its name identifies it.
        topic_id = _deleted_id(image, partition)
        if topic_id is None:
            return _Place.UNKNOWN if _has_log(files, name) else _Place.NOTHING
    if topic_id not in image.deletions:
        return _Place.UNKNOWN
    found.remembered.add(topic_id)
    return _Place.ELSEWHERE


def is_of_topic(files: Files, directory: str, topic_id: bytes) -> bool:
    """Whether a directory may be a partition of that topic, by the id in it: one without an id
    may."""
    return _topic_id(files, directory) in (None, topic_id)


def _topic_id(files: Files, name: str) -> bytes | None:
    """None where the file is not there or cannot be read."""
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
    except StorageError:  # a file
        return False
