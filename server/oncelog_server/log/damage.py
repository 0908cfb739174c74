"""Detects damage that happened to a log's segments while no broker ran.

A power loss may remove the ends of files that were not synced, leave zeros in place of lost
writes, and make files longer than they were. Every other difference from the segments at the last
stop is damage. Damage must be reported, and a coordinator must not serve the remaining records.

A power loss may also shorten a closed segment above the recovery point, even within a batch,
although a later segment exists. The log of a coordinator is then cut, with a log event, and not
refused. Without `oncelog.flush.on.ack`, no response has promised that the lost records are durable.
With `oncelog.flush.on.ack`, no response was sent for the lost records, because a response waits for
the syncs of the segment with its records and of all earlier segments (`finish_flush` in `log.py`).
If the log were refused, every power failure would take the partition offline, without a benefit.

A kill loses no bytes, because the page cache outlives the process. So the two paragraphs above
apply only if the computer has been down since the last stop (`lost_nothing` is False).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_protocol.records.batch import HEADER_SIZE, MAGIC, MAGIC_POSITION, read_header
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.loaded import LoadedLog
from oncelog_server.log.segment import Segment
from oncelog_server.storage.layout import LOG_SUFFIX, segment_file

# The size of a sector, which a disk writes atomically.
_SECTOR: Final = 512
# The length field of a batch counts neither the offset field nor itself.
_BEFORE_LENGTH: Final = 12


def check_segments(loaded: LoadedLog, log_start_offset: int) -> None:
    """Raise CorruptLog if a segment is missing, or is shorter than when it was made durable.

    After a clean stop the check covers each segment in the checkpoint. For a coordinator, this is
    also true after a kill. In all other cases the check covers only the segments wholly below the
    recovery point. A missing segment at the start of the log is not an error if retention may have
    deleted the segment after the checkpoint was written.
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
            held = "is gone" if segment is None else f"now has {size}"
            raise CorruptLog(path, size, f"the segment had {sizes[base_offset]} bytes, and {held}")


def lost_its_front(loaded: LoadedLog, log_start_offset: int) -> bool:
    """Return True if the first segment of a coordinator's log is missing. Return False with the
    cleanup policy `delete`, because retention may have deleted the segment. Compaction does not
    explain a missing first segment, because the compacted segment has the same name."""
    if not loaded.refuses_damage or loaded.config.deletes_by_retention or not loaded.segments:
        return False
    return loaded.segments[0].base_offset > log_start_offset


def front_was_durable(loaded: LoadedLog, log_start_offset: int) -> bool:
    """Return False if a power failure explains a missing first segment: the recovery point is not
    above the log's start, so no record was known to be on disk."""
    if loaded.report.clean_shutdown or loaded.lost_nothing:
        return True
    return loaded.recovery_point > log_start_offset


def _check_front(loaded: LoadedLog, log_start_offset: int) -> None:
    """Raise CorruptLog if the log has lost its first segment. A coordinator must not serve a log
    without its first records."""
    if lost_its_front(loaded, log_start_offset):
        first = loaded.segments[0].base_offset
        path = f"{loaded.directory}/{segment_file(log_start_offset, LOG_SUFFIX)}"
        reason = f"the log begins at offset {first}, but its start was {log_start_offset}"
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
    """Return True if bytes between the start of `segment` and the start of `following`, the next
    segment, are lost. Either `segment` is smaller than at the checkpoint, or a segment between the
    two is missing. A power failure has removed these bytes, because they were not durable."""
    if segment.size < sizes.get(segment.base_offset, 0):
        return True
    between = range(segment.base_offset + 1, following.base_offset)
    return any(size and base_offset in between for base_offset, size in sizes.items())


def is_later_than_checkpoint(sizes: Mapping[int, int], segment: Segment) -> bool:
    """Return True if `segment` was created after the checkpoint, which a power failure has
    restored. A gap before such a segment is a loss, and not the work of compaction.

    Compaction has not changed the segments before `segment` since that checkpoint: it writes the
    checkpoint without the segments that it replaces, and makes the new names durable, before it
    replaces them (`log/cleaner/replacement.py`). A roll leaves no gap. A valid batch with too low
    an offset shows that the file has got another name, which no power failure does.
    """
    if not sizes or segment.base_offset <= max(sizes):
        return False
    start = segment.log.read(0, HEADER_SIZE)
    is_batch = len(start) == HEADER_SIZE and start[MAGIC_POSITION] == MAGIC
    return not (is_batch and 0 <= read_header(start).base_offset < segment.base_offset)


def lost_the_end_of_a_batch(
    sizes: Mapping[int, int], segment: Segment, position: int, data: bytes
) -> bool:
    """Return True if the file ends within the batch at `position`. `data`: the first bytes of the
    batch.

    The segment was closed, but not durable. A power failure has removed the end of the file, while
    bytes of a later segment survived. Return False if the checkpoint shows that the file was never
    longer.
    """
    if segment.base_offset in sizes and segment.size >= sizes[segment.base_offset]:
        return False
    left = segment.size - position
    return left < HEADER_SIZE or int.from_bytes(data[8:12], "big") + _BEFORE_LENGTH > left


def is_longer_than_written(sizes: Mapping[int, int], segment: Segment) -> bool:
    """Return True if the file of a closed segment has more bytes than the segment ever had. The
    file system has made the file longer, and a power failure has prevented the write of the data.
    The new bytes may be old data of the disk."""
    return segment.size > sizes.get(segment.base_offset, segment.size)


def ends_in_zeros(sizes: Mapping[int, int], segment: Segment, position: int, data: bytes) -> bool:
    """Return True if only zeros follow the batch at `position`, up to the end of the file, and they
    are at least as many as the bytes of a batch's header. `data`: the bytes from `position` on.

    The broker writes no zeros after a batch. So the file system has made the file longer, as in
    `is_longer_than_written`. That function needs the size of the segment in the checkpoint. A
    segment that was closed after the checkpoint has none (seed 8094).
    """
    if segment.base_offset in sizes or position + len(data) != segment.size:
        return False
    batch = int.from_bytes(data[8:_BEFORE_LENGTH], "big") + _BEFORE_LENGTH
    return HEADER_SIZE <= batch <= len(data) - HEADER_SIZE and not any(data[batch:])


def was_written(data: bytes, position: int) -> bool:
    """Return True if `data` was once written completely, although `data` is no valid batch. A lost
    write would have left zeros, either in all of the header after the length, where the magic byte
    is 2, or in a whole sector. `position` is the place of `data` in the file."""
    if not any(data[:HEADER_SIZE]):
        return False
    if len(data) >= HEADER_SIZE and not any(data[_BEFORE_LENGTH:HEADER_SIZE]):
        return False
    first = -position % _SECTOR
    sectors = range(first, len(data) - _SECTOR + 1, _SECTOR)
    return all(any(data[start : start + _SECTOR]) for start in sectors)
