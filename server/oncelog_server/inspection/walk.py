"""A walk over a `.log` file that may be damaged. The walk continues after damage, and needs bounded
memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_protocol.checksum import crc32c
from oncelog_protocol.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)
from oncelog_server.log.scan import size_problem
from oncelog_server.storage.files import File

CHUNK_BYTES: Final = 1 << 20
_MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
_CODECS: Final = 5


class WalkedBatch(NamedTuple):
    """A complete batch with the right CRC."""

    position: int
    header: BatchHeader


class Gap(NamedTuple):
    """Bytes that are no batch, from `position` up to `end`.

    A valid batch with the offset `next_offset` follows. `next_offset` is None if the gap reaches
    the end of the file.
    """

    position: int
    end: int
    reason: str
    next_offset: int | None


class Walk:
    """An iterator over the batches of a file and the gaps between them, in their order."""

    def __init__(self, file: File, base_offset: int) -> None:
        self._file = file
        self._end = file.size
        self._base_offset = base_offset
        self._chunk = b""
        self._chunk_start = 0

    def __iter__(self) -> Iterator[WalkedBatch | Gap]:
        position, end = 0, self._end
        while position < end:
            header, problem = self._examine(position)
            if header is not None and problem is None:
                yield WalkedBatch(position, header)
                position += header.size
                continue
            assert problem is not None
            following = self._find_valid(position + 1)
            if following is None:
                yield Gap(position, end, problem, None)
                return
            yield Gap(position, following.position, problem, following.header.base_offset)
            position = following.position

    def batch_bytes(self, batch: WalkedBatch) -> bytes:
        """Return all bytes of a batch."""
        return self._bytes(batch.position, batch.header.size)

    def _examine(self, position: int) -> tuple[BatchHeader | None, str | None]:
        left = self._end - position
        if left < HEADER_SIZE:
            return None, f"{left} bytes are less than a batch header"
        header = read_header(self._bytes(position, HEADER_SIZE))
        if header.magic != MAGIC:
            return header, f"message format v{header.magic} instead of v{MAGIC}"
        wrong_size = size_problem(header.size, left)
        if wrong_size is not None:
            return header, wrong_size
        crc = self._crc(position, header.size)
        if crc != header.crc:
            return header, f"the CRC is {crc}, the header says {header.crc}"
        if header.last_offset_delta < 0:
            return header, f"the last offset delta of the batch is {header.last_offset_delta}"
        return header, None

    def _find_valid(self, start: int) -> WalkedBatch | None:
        """Return the first complete batch with the right CRC that begins at or after `start`."""
        at = start
        while at + HEADER_SIZE <= self._end:
            window = self._file.read(at, CHUNK_BYTES + HEADER_SIZE)
            slot = window.find(MAGIC, MAGIC_POSITION)
            while 0 <= slot <= len(window) - (HEADER_SIZE - MAGIC_POSITION):
                header = read_header(window, slot - MAGIC_POSITION)
                position = at + slot - MAGIC_POSITION
                if self._is_plausible(header, position) and (
                    self._crc(position, header.size) == header.crc
                ):
                    return WalkedBatch(position, header)
                slot = window.find(MAGIC, slot + 1)
            at += CHUNK_BYTES
        return None

    def _is_plausible(self, header: BatchHeader, position: int) -> bool:
        """Return True if a header fits a batch of this segment.

        Without this check, the search would compute a CRC for most positions.
        """
        return (
            HEADER_SIZE <= header.size <= self._end - position
            and 0 <= header.base_offset - self._base_offset <= _MAX_RELATIVE_OFFSET
            and 0 <= header.records_count <= header.last_offset_delta + 1
            and header.attributes & COMPRESSION_MASK < _CODECS
        )

    def _crc(self, position: int, size: int) -> int:
        """Return the CRC32C of the batch at `position`, computed in pieces."""
        crc, at, end = 0, position + ATTRIBUTES_POSITION, position + size
        while at < end:
            piece = self._bytes(at, min(end - at, CHUNK_BYTES))
            if not piece:
                break
            crc = crc32c(piece, crc)
            at += len(piece)
        return crc

    def _bytes(self, position: int, size: int) -> bytes:
        at = position - self._chunk_start
        if at < 0 or at + size > len(self._chunk):
            self._chunk = self._file.read(position, max(size, CHUNK_BYTES))
            self._chunk_start, at = position, 0
        return self._chunk[at : at + size]
