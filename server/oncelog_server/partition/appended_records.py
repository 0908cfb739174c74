"""All records of a partition, committed or not, from which a coordinator rebuilds its state."""

from __future__ import annotations

from oncelog_server.log.results import FileRange
from oncelog_server.partition.partition import Partition
from oncelog_server.storage.files import File


class AppendedRecords:
    """The appended records of one partition."""

    __slots__ = ("partition",)

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def read(self, offset: int, max_bytes: int) -> FileRange | None:
        """Return the batch that contains `offset` and the batches after it. The result has at most
        `max_bytes` of one segment, or a single larger batch. Return None at the log end. Raises
        StorageError and CorruptLog."""
        log = self.partition._log
        limit = log.log_end_offset
        return log.read(offset, max_bytes, limit=limit, at_least_one=True).records

    def end_of_file(self, file: File) -> int:
        """Return the end offset of the segment with this file. Return 0 if the log does not have
        the segment any more."""
        return self.partition._log.segments.end_of_file(file)

    @property
    def first_segment_offset(self) -> int:
        """Return the base offset of the first segment, at most the log start offset."""
        return self.partition._log.segments[0].base_offset
