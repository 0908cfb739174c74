"""The start offset of each leader epoch in the log (KIP-101, KIP-279; Kafka's
LeaderEpochFileCache)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_numbers, encode_lines


class EpochStart(NamedTuple):
    """`start_offset` is the offset of the first batch that a leader of `epoch` has appended."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs and their start offsets. Both columns increase."""

    __slots__ = ("_entries", "latest_epoch")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[EpochStart] = []
        # The last epoch, -1 without epochs. Every append compares its epoch with this value.
        self.latest_epoch = -1
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __iter__(self) -> Iterator[EpochStart]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Start `epoch` at `start_offset`. Remove entries that contradict the new entry. Return
        True if the entries change."""
        last = self._entries[-1] if self._entries else None
        if last is not None and last.epoch == epoch and last.start_offset <= start_offset:
            return False
        while self._entries and (
            self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset
        ):
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def epoch_at(self, offset: int) -> int:
        """Return the epoch in which `offset` was written, -1 if it is unknown."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[slot].epoch if slot >= 0 else -1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """Return the largest epoch at or below `epoch`, and the end offset of that epoch
        (OffsetForLeaderEpoch). If all epochs are above `epoch`, return `epoch` and the start of the
        first one, as in Kafka. Return None if `epoch` is negative or above the latest epoch."""
        if epoch < 0:
            return None
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        slot = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if slot == len(self._entries):
            return None
        end_offset = self._entries[slot].start_offset
        return (self._entries[slot - 1].epoch if slot else epoch), end_offset

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove the epochs that begin at or after `end_offset`. Return True if an epoch was
        removed."""
        before = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        self.latest_epoch = self._entries[-1].epoch if self._entries else -1
        return len(self._entries) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Let the epoch of `start_offset`, the new start of the log, begin there. Remove earlier
        epochs. Return True if the entries change."""
        slot = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if slot < 0 or (slot == 0 and self._entries[0].start_offset == start_offset):
            return False
        self._entries[: slot + 1] = [EpochStart(self._entries[slot].epoch, start_offset)]
        return True

    def encode(self) -> bytes:
        return encode_lines(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """Return the epochs of a file. Raises MalformedCheckpoint, also if epochs or offsets do not
        increase."""
        rows = [row for row in decode_numbers(data, 2) if row[0] >= 0]
        for (epoch, offset), (next_epoch, next_offset) in pairwise(rows):
            if not (epoch < next_epoch and offset < next_offset):
                raise MalformedCheckpoint(
                    f"epoch {next_epoch} from {next_offset} follows epoch {epoch} from {offset}"
                )
        return cls((epoch, offset) for epoch, offset in rows)
