"""Groups of segments that a pass merges into one, and the indexes of the new segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog_protocol.records.batch import BatchHeader
from oncelog_server.log.cleaner.job import Source
from oncelog_server.log.config import LogConfig
from oncelog_server.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from oncelog_server.log.time_index import TimeIndex
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
)

# Maximum number of segments in a group. The limit is small, because all files of a group are
# renamed in one turn of the event loop.
LARGEST_GROUP: Final = 16
_NO_TIMESTAMP: Final = -1


def group(sources: Sequence[Source], files: Files, config: LogConfig) -> list[list[Source]]:
    """Group neighboring segments that fit into one segment, by the sizes of their logs and indexes,
    and by the range of offsets that an index can have (Cleaner.groupSegmentsBySize)."""
    groups: list[list[Source]] = []
    sizes = [0, 0, 0]
    limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
    for source in sources:
        added = (
            source.size,
            _size(files, source, OFFSET_INDEX_SUFFIX),
            _size(files, source, TIME_INDEX_SUFFIX),
        )
        together = [size + more for size, more in zip(sizes, added, strict=True)]
        if (
            groups
            and len(groups[-1]) < LARGEST_GROUP
            and all(size <= limit for size, limit in zip(together, limits, strict=True))
            and source.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(source)
            sizes = together
        else:
            groups.append([source])
            sizes = list(added)
    return groups


def _size(files: Files, source: Source, suffix: str) -> int:
    """Return the size of an index. A missing index counts as 0, because only a small segment may
    have no index."""
    try:
        return files.open(source.path.removesuffix(LOG_SUFFIX) + suffix).size
    except StorageError:
        return 0


class Indexes:
    """The indexes of a segment that is being written. They have the entries that `Segment` would
    add if the same batches were appended to a log."""

    __slots__ = (
        "_base_offset",
        "_interval",
        "_latest",
        "_offsets",
        "_since_entry",
        "_times",
        "position",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval = interval_bytes
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._latest = (_NO_TIMESTAMP, 0)
        self._since_entry = 0
        self.position = 0

    def note(self, header: BatchHeader, size: int) -> None:
        """Add the next batch; `size` is its size in the new segment."""
        relative_offset = header.last_offset - self._base_offset
        if header.max_timestamp > self._latest[0]:
            self._latest = (header.max_timestamp, relative_offset)
        if self._since_entry > self._interval:
            self._offsets.append(relative_offset, self.position)
            self._times.append_if_later(*self._latest)
            self._since_entry = 0
        self._since_entry += size
        self.position += size

    def encode(self) -> tuple[bytes, bytes]:
        """Return the contents of offset index and time index; the last entry of the time
        index is the latest timestamp."""
        self._times.append_if_later(*self._latest)
        return self._offsets.encode(), self._times.encode()
