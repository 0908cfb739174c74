"""The batches of a `.log` file, valid or not (Kafka's FileLogInputStream).

`log/scan.py` stops at the first batch that recovery would truncate. `RawBatches` stops only where
no next batch can be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    compute_crc,
    read_header,
)
from oncelog_server.log.scan import size_problem
from oncelog_server.storage.files import File

CHUNK_BYTES: Final = 1 << 20
# Number of bytes that Kafka needs to recognize a batch's format.
_PREFIX_BYTES: Final = MAGIC_POSITION + 1


class RawBatch(NamedTuple):
    """A batch. `data` are its bytes, which begin at `position` in the file."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def is_valid(self) -> bool:
        """Return True if the CRC in the header matches the bytes."""
        return compute_crc(self.data, 0, len(self.data)) == self.header.crc


class RawBatches:
    """An iterator over the batches of `file` that end within its first `max_bytes`.

    After the iteration, `position` is the first byte that belongs to no batch. `problem` is the
    reason why the iteration ended there, None at the end of the file.
    """

    def __init__(self, file: File, max_bytes: int | None = None) -> None:
        self.position = 0
        self.problem: str | None = None
        self.end = file.size if max_bytes is None else min(file.size, max_bytes)
        self._file = file
        self._chunk = b""
        self._chunk_start = 0

    def __iter__(self) -> Iterator[RawBatch]:
        while self.position < self.end:
            left = self.end - self.position
            prefix = self._bytes(min(left, HEADER_SIZE))
            if len(prefix) < _PREFIX_BYTES:
                self.problem = f"{left} bytes are less than a batch header"
                return
            if prefix[MAGIC_POSITION] != MAGIC:
                self.problem = f"message format v{prefix[MAGIC_POSITION]} is not supported"
                return
            size = int.from_bytes(prefix[8:LENGTH_OVERHEAD], signed=True) + LENGTH_OVERHEAD
            self.problem = size_problem(size, left)
            if self.problem is not None:
                return
            data = self._bytes(size)
            if len(data) < size:
                self.problem = "the batch is cut off"
                return
            yield RawBatch(self.position, read_header(data), data)
            self.position += size

    def _bytes(self, size: int) -> bytes:
        at = self.position - self._chunk_start
        if at + size > len(self._chunk):
            self._chunk = self._file.read(self.position, max(size, CHUNK_BYTES))
            self._chunk_start, at = self.position, 0
        return self._chunk[at : at + size]
