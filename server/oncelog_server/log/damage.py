"""What gives away that a log was damaged while nothing wrote to it: its segments are not what they
were when they were closed.

A power loss takes ends of files that were not synced, and leaves zeros where a write did not reach
the disk. Anything else that is missing, or different, was changed: it must not be passed over in
silence, and a coordinator must not serve what is left.

Above the recovery point a closed segment may so end early, even within a batch, though a later one
is there. A coordinator's log is then cut, loudly, and not refused. Without `oncelog.flush.on.ack`
no response has promised more than that; with it none has left for what is lost, as a response waits
for the syncs of all segments up to its own (`finish_flush` in `log.py`). A partition that refused
would be offline after every such power failure, and nothing would have been saved.

A kill takes nothing: the page cache outlives the process. So all of that is an excuse only if the
computer has been down since (`lost_nothing` is False).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.segment import Segment
from oncelog_server.storage.layout import LOG_SUFFIX, segment_file

# Disks write this much, or nothing of it.
_SECTOR: Final = 512
_HEADER: Final = 61
# Offset and length of a batch come before what the length counts.
_BEFORE_LENGTH: Final = 12


def check_segments(loaded: LoadedLog, log_start_offset: int) -> None:
    """Raise CorruptLog where a segment is gone, or shorter than it was when it was made durable.

    After a clean stop that is each one the checkpoint names, and for a coordinator after a kill,
    too. After a power failure it is those wholly below the recovery point. At the front retention
    may have been faster than the checkpoint.
    """
    _check_front(loaded, log_start_offset)
    sizes = loaded.aborted.sizes
    found = {segment.base_offset: segment for segment in loaded.segments}
    for base_offset in sorted(sizes):
        if not _was_durable(loaded, base_offset):
            continue
        segment = found.get(base_offset)
        if segment is None and _may_be_deleted(loaded, base_offset, log_start_offset):
            continue
        size = 0 if segment is None else segment.size
        if size < sizes[base_offset]:
            path = f"{loaded.directory}/{segment_file(base_offset, LOG_SUFFIX)}"
            held = "is gone" if segment is None else f"has {size}"
            raise CorruptLog(path, size, f"the segment had {sizes[base_offset]} bytes, and {held}")


def _check_front(loaded: LoadedLog, log_start_offset: int) -> None:
    """Raise CorruptLog for a coordinator's log without its first segment: compaction never takes
    that name away, and the others are no prefix of what was written."""
    if not loaded.refuses_damage or loaded.config.deletes_by_retention or not loaded.segments:
        return
    first = loaded.segments[0].base_offset
    if first > log_start_offset:
        path = f"{loaded.directory}/{segment_file(log_start_offset, LOG_SUFFIX)}"
        reason = f"the log begins at offset {first}, and began at {log_start_offset}"
        raise CorruptLog(path, 0, reason)


def _was_durable(loaded: LoadedLog, base_offset: int) -> bool:
    if loaded.report.clean_shutdown or (loaded.refuses_damage and loaded.lost_nothing):
        return True
    following = [siz for siz in loaded.aborted.sizes if siz > base_offset]
    return bool(following) and min(following) <= loaded.recovery_point


def _may_be_deleted(loaded: LoadedLog, base_offset: int, log_start_offset: int) -> bool:
    if base_offset < log_start_offset:
        return True
    first = loaded.segments[0].base_offset if loaded.segments else 0
    return loaded.config.deletes_by_retention and base_offset < first


def lost_its_end(sizes: Mapping[int, int], segment: Segment, following: Segment) -> bool:
    """Is there less of the segment, or of those up to the following one, than there was? Not all of
    it was durable: a power failure took it."""
    if segment.size < sizes.get(segment.base_offset, 0):
        return True
    between = range(segment.base_offset + 1, following.base_offset)
    return any(size and base_offset in between for base_offset, size in sizes.items())


def lost_the_end_of_a_batch(
    sizes: Mapping[int, int], segment: Segment, position: int, data: bytes
) -> bool:
    """Does the file end within the batch at `position`, which begins with `data`, and is it not
    known to have been as long as that? The segment was closed and not yet durable: a power failure
    took its end, though of a later segment more was written."""
    if segment.base_offset in sizes and segment.size >= sizes[segment.base_offset]:
        return False
    left = segment.size - position
    return left < _HEADER or int.from_bytes(data[8:12], "big") + _BEFORE_LENGTH > left


def was_written(data: bytes, position: int) -> bool:
    """Whether all of `data`, which is no batch, reached the disk once: no part of it that a disk
    writes at once is all zeros. `position`: where it is in its file."""
    if not any(data[:_HEADER]):
        return False
    first = -position % _SECTOR
    sectors = range(first, len(data) - _SECTOR + 1, _SECTOR)
    return all(any(data[start : start + _SECTOR]) for start in sectors)
