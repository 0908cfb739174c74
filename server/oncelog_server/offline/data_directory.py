"""The partitions in a folder, and what its checkpoints say of them: a data directory, or the folder
of one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_offsets
from oncelog_server.log.whole_files import read_whole
from oncelog_server.offline.findings import REBUILT, Finding, Severity, Totals
from oncelog_server.offline.verify import Facts, PartitionCheck
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    is_deleted_directory,
    parse_partition_directory,
    parse_segment_file,
)

_STRAY_SUFFIX: Final = "-stray"
CleanedOffset: TypeAlias = Callable[[], int]


class PartitionFolder(NamedTuple):
    """One partition on disk; `name` is None for a folder that has no partition's name."""

    path: str
    name: TopicPartition | None


class Place(NamedTuple):
    """What a path given by a user is: partitions, in the data directory `root` (None: unknown)."""

    root: str | None
    partitions: list[PartitionFolder]
    set_aside: list[str]


class NothingThere(Exception):
    """The folder holds no log; the message names the files that were expected."""


def look(files: Files, path: str) -> Place:
    """What is in the folder at `path`. Raises NothingThere, and StorageError where it cannot be
    read."""
    path = path.rstrip("/") or "/"
    names = files.list(path)
    if any(_is_log(name) for name in names):
        root, _, name = path.rpartition("/")
        return Place(root or ".", [PartitionFolder(path, parse_partition_directory(name))], [])
    found, set_aside = [], []
    for name in names:
        parsed = parse_partition_directory(name)
        if is_deleted_directory(name) or name.endswith(_STRAY_SUFFIX):
            set_aside.append(f"{path}/{name}")
        elif parsed is not None:
            found.append(PartitionFolder(f"{path}/{name}", parsed))
    if not found and not set_aside:
        raise NothingThere(
            f"{path} holds no log: neither segments (00000000000000000000.log) nor folders of"
            " partitions (topic-0)"
        )
    return Place(path, sorted(found, key=lambda folder: folder.name or ("", 0)), set_aside)


def _is_log(name: str) -> bool:
    parsed = parse_segment_file(name)
    return parsed is not None and parsed.suffix == LOG_SUFFIX


def verify(files: Files, place: Place, *, running: bool, totals: Totals) -> Iterator[Finding]:
    """All that is wrong with the partitions of a place, as it is found."""
    root = place.root
    for path in place.set_aside:
        yield Finding(Severity.NOTE, path, "put aside: of a deleted topic, or of no known one",
                      "not looked at; `oncelog storage recover` takes strays back")  # fmt: skip
    recovery_points, problem = _offsets(files, root, RECOVERY_POINT_CHECKPOINT)
    if problem is not None:
        yield problem
    starts, problem = _offsets(files, root, LOG_START_CHECKPOINT)
    if problem is not None:
        yield problem
    clean = root is not None and files.exists(f"{root}/{CLEAN_SHUTDOWN}") and not running
    for folder in place.partitions:
        facts = Facts(
            running,
            clean,
            _cleaned_offset(files, root, folder.name),
            None if folder.name is None else recovery_points.get(folder.name),
            None if folder.name is None else starts.get(folder.name),
        )
        try:
            yield from PartitionCheck(files, folder.path, facts, totals).findings()
        except StorageError as error:
            severity = Severity.NOTE if running else Severity.DAMAGE
            yield Finding(severity, error.path, error.reason, "see that the file can be read")


def _offsets(
    files: Files, root: str | None, name: str
) -> tuple[dict[tuple[str, int], int], Finding | None]:
    """A checkpoint of the data directory; empty without one."""
    path = f"{root}/{name}"
    data = None if root is None else read_whole(files, path)
    try:
        return decode_offsets(data or b""), None
    except MalformedCheckpoint as error:
        return {}, Finding(Severity.DERIVED, path, str(error), REBUILT)


def _cleaned_offset(files: Files, root: str | None, name: TopicPartition | None) -> CleanedOffset:
    """How far compaction has been, by the checkpoint of this moment: 0 where it has not."""

    def cleaned() -> int:
        if name is None:
            return 0
        offsets, _ = _offsets(files, root, CLEANER_CHECKPOINT)
        return offsets.get(name, 0)

    return cleaned
