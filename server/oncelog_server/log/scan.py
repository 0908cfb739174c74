"""Walks the batches of a log file. The walk reads only headers, or also checks the CRC of each
batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, compute_crc, read_header
from oncelog_server.storage.files import File

WALK_CHUNK: Final = 4096 + HEADER_SIZE
SCAN_CHUNK: Final = 1 << 20
_LAST_OFFSET: Final = (1 << 63) - 1


def size_problem(size: int, left: int) -> str | None:
    """Return the reason for which a batch cannot have `size` bytes, None if it can. `size` is what
    the length field of the batch says. `left`: the bytes of the file from the start of the batch
    on."""
    if size < HEADER_SIZE:
        return f"a batch of {size} bytes, less than the {HEADER_SIZE} of a header"
    if size > left:
        return f"a batch of {size} bytes, but only {left} bytes are left"
    return None


class Scan:
    """Iterate over (position, header) from `position` to `end`. `batch()` returns the current
    batch.

    The walk stops at `end` or at the first invalid batch. At an invalid batch, `problem` has the
    reason, and `position` is the start of the batch. Offsets must increase. `next_offset` is the
    smallest allowed offset of the next batch. With `check_epochs`, leader epochs must not fall: no
    batch has an epoch below `leader_epoch`, that of the batch before.
    """

    __slots__ = (
        "_chunk",
        "_chunk_size",
        "_chunk_start",
        "_header",
        "check_crc",
        "check_epochs",
        "end",
        "epoch_fell",
        "file",
        "last_possible_offset",
        "leader_epoch",
        "next_offset",
        "position",
        "problem",
    )  # fmt: skip

    def __init__(
        self,
        file: File,
        position: int = 0,
        *,
        next_offset: int = 0,
        check_crc: bool = False,
        chunk_size: int = SCAN_CHUNK,
    ) -> None:
        self.file = file
        self.position = position
        self.end = file.size
        self.next_offset = next_offset
        # Largest possible last offset of a batch in this file. A batch with a larger last offset is
        # damaged. The CRC does not detect this damage, because the CRC does not cover the offset.
        self.last_possible_offset = _LAST_OFFSET
        self.check_crc = check_crc
        self.check_epochs = False
        self.leader_epoch = -1
        # True if the problem is a leader epoch that falls.
        self.epoch_fell = False
        self.problem: str | None = None
        self._chunk = b""
        self._chunk_start = position
        self._chunk_size = chunk_size
        self._header: BatchHeader | None = None

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        end = self.end
        while (position := self.position) < end:
            at = position - self._chunk_start
            if at + HEADER_SIZE > len(self._chunk):
                self._read_chunk(position, self._chunk_size)
                at = 0
                if len(self._chunk) < HEADER_SIZE:
                    self.problem = f"{end - position} bytes are less than a batch header"
                    return
            header = read_header(self._chunk, at)
            self.problem = self._examine(header, end - position) or (
                self._examine_crc(header, position) if self.check_crc else None
            )
            if self.problem is None and self.check_epochs:
                self.problem = self._examine_epoch(header)
            if self.problem is not None:
                return
            self._header = header
            yield position, header
            self.position = position + header.batch_length + 12
            self.next_offset = header.next_offset
            if self.check_epochs:
                self.leader_epoch = max(self.leader_epoch, header.partition_leader_epoch)

    def begins_with(self, last_offset: int) -> bool:
        """Return True if a batch begins at `position`, and has the last offset `last_offset`.

        Call this method before the walk. The walk uses the bytes that this method reads. Raises
        StorageError.
        """
        self._read_chunk(self.position, self._chunk_size)
        if len(self._chunk) < HEADER_SIZE:
            return False
        header = read_header(self._chunk)
        if self._examine(header, self.end - self.position) is not None:
            return False
        return header.last_offset == last_offset

    def batch(self) -> bytes:
        """Return all bytes of the batch that the walk has yielded last."""
        header = self._header
        assert header is not None
        start = self.position - self._chunk_start
        if start + header.size > len(self._chunk):
            self._read_chunk(self.position, max(header.size, self._chunk_size))
            start = 0
        return self._chunk[start : start + header.size]

    def _read_chunk(self, position: int, size: int) -> None:
        self._chunk = self.file.read(position, size)
        self._chunk_start = position

    def _examine(self, header: BatchHeader, left: int) -> str | None:
        if header.magic != MAGIC:
            return f"message format v{header.magic} is not supported"
        wrong_size = size_problem(header.size, left)
        if wrong_size is not None:
            return wrong_size
        if header.base_offset < self.next_offset or header.last_offset_delta < 0:
            return (
                f"offsets {header.base_offset}..{header.last_offset}, expected"
                f" {self.next_offset} or later"
            )
        if header.last_offset > self.last_possible_offset:
            return (
                f"offsets {header.base_offset}..{header.last_offset}, expected at most"
                f" {self.last_possible_offset}"
            )
        return None

    def _examine_epoch(self, header: BatchHeader) -> str | None:
        epoch = header.partition_leader_epoch
        if epoch == -1 or epoch >= self.leader_epoch:
            return None
        self.epoch_fell = True
        return f"leader epoch {epoch} follows epoch {self.leader_epoch}"

    def _examine_crc(self, header: BatchHeader, position: int) -> str | None:
        at = position - self._chunk_start
        if at + header.size > len(self._chunk):
            self._read_chunk(position, max(header.size, self._chunk_size))
            at = 0
            if len(self._chunk) < header.size:
                return "the batch is cut off"
        crc = compute_crc(self._chunk, at, header.size)
        return None if crc == header.crc else f"the CRC is {crc}, the header says {header.crc}"


def find_valid_batch(data: bytes, first_offset: int) -> int | None:
    """Return the position in `data` of the first whole batch with a valid CRC and an offset from
    `first_offset` on. Return None if there is no such batch. The result distinguishes a torn tail
    from damage in the middle."""
    at = data.find(MAGIC, 16)
    while at >= 0:
        start = at - 16
        if len(data) - start >= HEADER_SIZE:
            header = read_header(data, start)
            if (
                header.base_offset >= first_offset
                and HEADER_SIZE <= header.size <= len(data) - start
                and compute_crc(data, start, header.size) == header.crc
            ):
                return start
        at = data.find(MAGIC, at + 1)
    return None
