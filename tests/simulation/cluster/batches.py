"""The batches on the disks of all brokers, by their headers."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tests.simulation.disk import SimDisk
from tests.simulation.namespace import Inode

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta.
_HEAD: Final = struct.Struct(">qiibIhi")
_PREFIX: Final = 12
_LEAST: Final = 49


class BatchId(NamedTuple):
    """A batch. Two batches with the same values are the same: the CRC covers all but the base
    offset and the leader epoch."""

    base: int
    last: int
    epoch: int
    crc: int


class _Segment:
    """The batches of a file, up to the position to which they were read."""

    def __init__(self, inode: Inode) -> None:
        self.inode = inode
        self.data = inode.data
        self.cuts = inode.cuts
        self.end = 0
        self.batches: list[BatchId] = []

    def is_of(self, inode: Inode) -> bool:
        return (
            inode is self.inode
            and inode.data is self.data
            and inode.cuts == self.cuts
            and len(inode.data) >= self.end
        )

    def read_on(self) -> None:
        data = self.data
        while self.end + _HEAD.size <= len(data):
            base, length, epoch, magic, crc, _, delta = _HEAD.unpack_from(data, self.end)
            after = self.end + _PREFIX + length
            if magic != 2 or length < _LEAST or after > len(data):
                return
            self.batches.append(BatchId(base, base + delta, epoch, crc))
            self.end = after


class Batches:
    """The batches on one disk, as its page cache has them."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._segments: dict[str, _Segment] = {}

    def of(self, partition: str) -> list[BatchId]:
        """Return the batches of a partition (`a-0`) in the order of their offsets."""
        folder = f"{partition}/"
        files = self._disk.names.files
        found: list[BatchId] = []
        for path in sorted(files):
            if path.startswith(folder) and path.endswith(".log"):
                found += self._read(path, files[path])
        return found

    def _read(self, path: str, inode: Inode) -> list[BatchId]:
        segment = self._segments.get(path)
        if segment is None or not segment.is_of(inode):
            segment = self._segments[path] = _Segment(inode)
        segment.read_on()
        return segment.batches
