"""Cleans up after a crash in the middle of renames (Kafka's LogLoader: deletions, compaction,
swaps)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_server.log.scan import WALK_CHUNK, Scan
from oncelog_server.log.segment import Segment
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SegmentFile,
    parse_segment_file,
    segment_file,
)

_NO_OFFSET: Final = 1 << 63
_UNDER_WAY: Final = (DELETED_SUFFIX, TEMPORARY_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def sweep(files: Files, directory: str, names: list[str]) -> list[str]:
    """Complete or undo interrupted changes of files. `names` are all files of the directory. Return
    the names of the affected files.

    Deleted and temporary files are removed. Files of an incomplete compaction (`.cleaned`) are
    removed, together with the `.swap` files of the same or a later offset. The file of a complete
    compaction (`.swap`) gets its final name, and the segments that it replaces are removed. Indexes
    without a log are removed. If a crash interrupts this work, the next start repeats the work.
    """
    if not any(name.endswith(_UNDER_WAY) for name in names):
        orphans = sorted(_orphans(set(names)))
        _rename_away(files, directory, orphans)
        return orphans
    parsed = {name: file for name in names if (file := parse_segment_file(name)) is not None}
    gone = [name for name in names if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX))]
    cleaned = {name for name, file in parsed.items() if file.state == CLEANED_SUFFIX}
    first_cleaned = min((parsed[name].offset for name in cleaned), default=_NO_OFFSET)
    swaps = {name: file for name, file in parsed.items() if file.state == SWAP_SUFFIX}
    undone = {name for name, file in swaps.items() if file.offset >= first_cleaned}
    gone += sorted(cleaned | undone)
    finished = {name: file for name, file in swaps.items() if name not in undone}
    in_use = {name: file for name, file in parsed.items() if not file.state}
    replaced = _replaced(files, directory, finished, in_use)
    gone += replaced
    kept = {name for name in in_use if name not in replaced}
    kept |= {name.removesuffix(SWAP_SUFFIX) for name in finished}
    gone += sorted(_orphans(kept))
    _rename_away(files, directory, gone)
    # Rename the log file first, because the next start removes an index without a log.
    for name in sorted(finished, key=lambda name: finished[name].suffix != LOG_SUFFIX):
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return [*gone, *finished]


def undo_compaction(files: Files, directory: str) -> None:
    """Remove the files of a compaction with old segments that are still in use. Otherwise a start
    would complete its swap. Raises StorageError."""
    unfinished = (CLEANED_SUFFIX, SWAP_SUFFIX)
    names = [name for name in files.list(directory) if name.endswith(unfinished)]
    # The log file is renamed last, because a start completes a swap that still has its log file.
    # Without the log file, a start would use the indexes of the swap for the old segment.
    _rename_away(files, directory, sorted(names, key=lambda name: LOG_SUFFIX in name))


def _replaced(
    files: Files,
    directory: str,
    finished: dict[str, SegmentFile],
    in_use: dict[str, SegmentFile],
) -> list[str]:
    """Return the files of the segments that `.swap` files replace. These segments begin at the
    offset of the first swap or later, and before the end of the last swap. Snapshots stay."""
    logs = sorted(file.offset for file in finished.values() if file.suffix == LOG_SUFFIX)
    if not logs:
        return []
    last = f"{directory}/{segment_file(logs[-1], LOG_SUFFIX, SWAP_SUFFIX)}"
    scan = Scan(files.open(last), next_offset=logs[-1])
    for _ in scan:
        pass
    end = max(scan.next_offset, logs[-1] + 1)
    return sorted(
        name for name, file in in_use.items()
        if logs[0] <= file.offset < end and file.suffix != SNAPSHOT_SUFFIX
    )  # fmt: skip


def _orphans(names: set[str]) -> set[str]:
    """Return the indexes without a log file."""
    return {
        name
        for name in names
        if name.endswith(_INDEX_SUFFIXES)
        and name.partition(".")[0] + LOG_SUFFIX not in names
        and parse_segment_file(name) is not None
    }


def _rename_away(files: Files, directory: str, names: list[str]) -> None:
    """Rename files to free their names at once. The files are unlinked later, off the loop."""
    paths = []
    for name in names:
        path = f"{directory}/{name}"
        if not name.endswith(DELETED_SUFFIX):
            files.rename(path, path + DELETED_SUFFIX)
            path += DELETED_SUFFIX
        paths.append(path)
    if paths:
        files.remove(paths)


def covered(segments: list[Segment], sizes: Mapping[int, int]) -> list[Segment]:
    """Return the segments that a power loss has restored after a merge. Compaction had merged these
    segments into earlier segments, and a power loss may undo one rename and keep a later rename
    (scenario S17). Without this check, the records of these segments would be in the log twice.

    `sizes`: the size of each segment in bytes at the last checkpoint, by base offset. If the
    checkpoint has a segment, and has the previous segment with its present size, the two were not
    merged. If their offsets still overlap, the offset of a batch is damaged. No checksum covers
    this offset.
    """
    found: list[Segment] = []
    before: Segment | None = None
    for segment in segments:
        if (
            before is not None
            and not (segment.base_offset in sizes and sizes.get(before.base_offset) == before.size)
            and _reaches(before, segment.base_offset)
        ):
            found.append(segment)
        else:
            before = segment
    return found


def _reaches(segment: Segment, offset: int) -> bool:
    """Return True if the segment has a batch with `offset` or a later offset. The result for a
    damaged segment does not matter, because recovery handles damage."""
    position = segment.position_near(offset)
    scan = Scan(segment.log, position, next_offset=segment.base_offset, chunk_size=WALK_CHUNK)
    return any(header.last_offset >= offset for _, header in scan)
