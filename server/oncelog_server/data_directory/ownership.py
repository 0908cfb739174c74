"""Finds out from the files which program a data directory belongs to. This module changes no file,
name or time, because the directory may belong to another program.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.storage.layout import (
    CLOSED_LOGS_CHECKPOINT,
    CLUSTER_REVISION,
    LOCK,
    LOST_AND_FOUND,
    META_PROPERTIES,
    METADATA_FILE,
    METADATA_NAME,
    MIGRATION,
    OTHER_BROKERS,
    TEMPORARY_SUFFIX,
    TXN_INDEX_CHECKPOINT,
    parse_partition_directory,
    parse_segment_file,
)

# Names that exist in every data directory of Apache Kafka (KRaft), and never in oncelog's.
KAFKA_METADATA_LOG: Final = "__cluster_metadata-"
KAFKA_BOOTSTRAP: Final = "bootstrap.checkpoint"
# Names that do not count: a killed process may leave a first file unfinished.
_IGNORED: Final = frozenset(
    (LOCK, LOST_AND_FOUND, MIGRATION + TEMPORARY_SUFFIX, CLUSTER_REVISION + TEMPORARY_SUFFIX)
)
# Maximum number of names that an error shows.
SHOWN: Final = 5


class ForeignDirectory(Exception):
    """The directory holds files that oncelog did not write."""


class NeedsRecovery(Exception):
    """The directory is oncelog's, but its metadata is lost, damaged or older than its logs."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"{found}. If there is a backup, put its metadata back (docs/backup.md). Else "
            f"`oncelog storage recover --data {path}` shows how the metadata would be "
            "rebuilt from the folders of the partitions, and rebuilds it with --yes"
        )


class Owner(Enum):
    """The owner of a directory.

    EMPTY: it has no files, except perhaps those of _IGNORED. LOST: it is oncelog's, but its
    metadata store is missing. UNKNOWN: it has partitions, but no file shows which program wrote
    them. MIGRATING: an import, export or format that writes it has not ended.
    """

    EMPTY = "empty"
    ONCELOG = "oncelog"
    LOST = "lost"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    MIGRATING = "migrating"


def owner_of(path: Path) -> Owner:
    """Return the owner of a directory, which need not exist. Raises OSError."""
    return _owner(path, _names(path))


def check_ownership(path: Path) -> None:
    """Raise ForeignDirectory or NeedsRecovery if a broker must not start on the directory.

    Raises OSError if it cannot be read.
    """
    names = _names(path)
    owner = _owner(path, names)
    if owner in (Owner.FOREIGN, Owner.MIGRATING, Owner.UNKNOWN):
        raise ForeignDirectory(_refusal(path, names))
    if owner is Owner.LOST:
        raise NeedsRecovery(path, f"{path} holds data of oncelog, but no {METADATA_FILE}")


def refusal_of(path: Path) -> str:
    """Return the error text for a foreign directory. Raises OSError."""
    return _refusal(path, _names(path))


def _names(path: Path) -> set[str]:
    try:
        return set(os.listdir(path)) - _IGNORED
    except FileNotFoundError:
        return set()


def _owner(path: Path, names: Collection[str]) -> Owner:
    if not names:
        return Owner.EMPTY
    if MIGRATION in names:
        return Owner.MIGRATING
    if METADATA_FILE in names or CLUSTER_REVISION in names:
        return Owner.ONCELOG
    if CLOSED_LOGS_CHECKPOINT in names or any(name.startswith(METADATA_NAME) for name in names):
        return Owner.LOST
    if OTHER_BROKERS in names and _has_other_brokers(path / OTHER_BROKERS):
        return Owner.LOST
    if KAFKA_BOOTSTRAP in names or any(name.startswith(KAFKA_METADATA_LOG) for name in names):
        return Owner.FOREIGN
    if META_PROPERTIES in names and _is_our_properties(path / META_PROPERTIES):
        return Owner.LOST
    partitions = [name for name in names if parse_partition_directory(name) is not None]
    if any((path / name / TXN_INDEX_CHECKPOINT).is_file() for name in partitions):
        return Owner.LOST
    if META_PROPERTIES in names or not any(_has_segments(path / name) for name in partitions):
        return Owner.FOREIGN
    return Owner.UNKNOWN


def _has_other_brokers(folder: Path) -> bool:
    """Return True if the folder has data directories of other brokers of this machine."""
    try:
        return any((folder / name / CLUSTER_REVISION).is_file() for name in os.listdir(folder))
    except OSError:
        return False


def _has_segments(folder: Path) -> bool:
    """Return True if the folder has files of a log. Other folders may be named like a partition:
    /etc/java-17."""
    try:
        return any(parse_segment_file(name) is not None for name in os.listdir(folder))
    except OSError:
        return False


def _is_our_properties(path: Path) -> bool:
    """Return True if oncelog wrote this meta.properties. Apache Kafka's file begins with the date,
    as a comment."""
    data = b""
    with suppress(OSError):
        data = path.read_bytes()
    return data.startswith(b"version=") and b"directory.id=" in data and b"#" not in data


def _refusal(path: Path, names: Collection[str]) -> str:
    if _owner(path, names) is Owner.MIGRATING:
        return (
            f"{path} is written by a format, or by an import or export that has not ended: run the "
            "same `oncelog storage format`, `import` or `export` again"
        )
    from_kafka = KAFKA_BOOTSTRAP in names or META_PROPERTIES in names
    found = _shown(path, names)
    advice = "Give --data a directory that is empty or does not exist"
    if from_kafka or any(parse_partition_directory(name) is not None for name in names):
        advice += (
            f". If Apache Kafka wrote it: `oncelog storage import {path}` shows how it would be "
            "taken over, and takes it over with --yes"
        )
    if _owner(path, names) is Owner.UNKNOWN:
        advice += (
            f". If oncelog wrote it and its metadata is lost: `oncelog storage recover --data "
            f"{path}` shows what can be rebuilt"
        )
    return (
        f"{path} is not a data directory of oncelog: it holds {found}. "
        f"Nothing in it was changed. {advice}"
    )


def _shown(path: Path, names: Collection[str]) -> str:
    def rank(name: str) -> tuple[int, str]:
        if name == META_PROPERTIES:
            return 0, name
        if name.startswith(KAFKA_METADATA_LOG):
            return 1, name
        if parse_partition_directory(name) is not None:
            return (3 if is_internal(name.rpartition("-")[0]) else 2), name
        return 4, name

    ordered = sorted(names, key=rank)
    shown = [_described(path, name) for name in ordered[:SHOWN]]
    more = len(ordered) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return ", ".join(shown)


def _described(path: Path, name: str) -> str:
    """Return a name; for meta.properties with its version, cluster and node."""
    if name != META_PROPERTIES:
        return name
    try:
        lines = (path / name).read_text(errors="replace").splitlines()
    except OSError as error:
        return f"{name} ({error.strerror})"
    keys = ("version", "cluster.id", "node.id", "broker.id")
    found = [line.strip() for line in lines if line.split("=", 1)[0].strip() in keys]
    return f"{name} ({', '.join(found)})" if found else name
