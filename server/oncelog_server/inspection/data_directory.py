"""Finds the partitions in a data directory, or in a single folder, and checks them with the offsets
in the directory's checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from oncelog_server.inspection.findings import REBUILT, CheckTotals, Finding, Severity
from oncelog_server.inspection.verify import Facts, PartitionCheck
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_offsets
from oncelog_server.log.whole_files import read_whole
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    OTHER_BROKERS,
    RECOVERY_POINT_CHECKPOINT,
    is_deleted_directory,
    parse_partition_directory,
    parse_segment_file,
)
from oncelog_server.topic_partition import TopicPartition

_STRAY_SUFFIX: Final = "-stray"
CleanedOffset: TypeAlias = Callable[[], int]


class PartitionFolder(NamedTuple):
    """The folder of a partition. `name` is None if the folder is not named like a partition."""

    path: str
    name: TopicPartition | None


class FoundPartitions(NamedTuple):
    """The partitions at a path that a user gave. `root` is their data directory, `set_aside` are
    the folders of deleted and stray partitions.
    """

    root: str | None
    partitions: list[PartitionFolder]
    set_aside: list[str]


class NothingThere(Exception):
    """The folder holds no log. The message names the expected files."""


def look(files: Files, path: str) -> list[FoundPartitions]:
    """Return the partitions at `path`, which is a data directory or the folder of one partition. A
    data directory may have those of other brokers of its machine inside.

    Raises NothingThere if there is no partition, StorageError if a folder cannot be read.
    """
    path = path.rstrip("/") or "/"
    names = files.list(path)
    if any(_is_log(name) for name in names):
        root, _, name = path.rpartition("/")
        folder = PartitionFolder(path, parse_partition_directory(name))
        return [FoundPartitions(root or ".", [folder], [])]
    roots = [path]
    if OTHER_BROKERS in names:
        others = f"{path}/{OTHER_BROKERS}"
        numbers = sorted((name for name in files.list(others) if name.isdecimal()), key=int)
        roots += [f"{others}/{number}" for number in numbers]
    places = [_partitions(files, root) for root in roots]
    found = [place for place in places if place.partitions or place.set_aside]
    if not found:
        raise NothingThere(
            f"{path} holds no log: neither segments (00000000000000000000.log) nor folders of"
            " partitions (topic-0)"
        )
    return found


def _partitions(files: Files, path: str) -> FoundPartitions:
    """Return the partitions in the data directory of a broker. Raises StorageError."""
    names = files.list(path)
    found, set_aside = [], []
    for name in names:
        parsed = parse_partition_directory(name)
        if is_deleted_directory(name) or name.endswith(_STRAY_SUFFIX):
            set_aside.append(f"{path}/{name}")
        elif parsed is not None:
            found.append(PartitionFolder(f"{path}/{name}", parsed))
    return FoundPartitions(
        path, sorted(found, key=lambda folder: folder.name or ("", 0)), set_aside
    )


def _is_log(name: str) -> bool:
    parsed = parse_segment_file(name)
    return parsed is not None and parsed.suffix == LOG_SUFFIX


def verify(
    files: Files, place: FoundPartitions, *, running: bool, totals: CheckTotals
) -> Iterator[Finding]:
    """Yield the findings about all partitions in `place`."""
    root = place.root
    for path in place.set_aside:
        yield Finding(Severity.NOTE, path, "put aside: its topic is deleted or unknown",
                      "not checked; `oncelog storage recover` restores -stray folders")  # fmt: skip
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
            yield Finding(severity, error.path, error.reason, "make the file readable")


def _offsets(
    files: Files, root: str | None, name: str
) -> tuple[dict[tuple[str, int], int], Finding | None]:
    """Return the offsets of a checkpoint, and a finding if the file is damaged. Without a valid
    file there are no offsets."""
    path = f"{root}/{name}"
    data = None if root is None else read_whole(files, path)
    try:
        return decode_offsets(data or b""), None
    except MalformedCheckpoint as error:
        return {}, Finding(Severity.DERIVED, path, str(error), REBUILT)


def _cleaned_offset(files: Files, root: str | None, name: TopicPartition | None) -> CleanedOffset:
    """Return a function that reads, from the cleaner's checkpoint, the offset below which the log
    is compacted. The function returns 0 if the checkpoint has no offset.

    It reads the checkpoint again at each call, because a running broker may compact the log
    meanwhile.
    """

    def cleaned() -> int:
        if name is None:
            return 0
        offsets, _ = _offsets(files, root, CLEANER_CHECKPOINT)
        return offsets.get(name, 0)

    return cleaned
