"""The leader epochs of one log and their file, `leader-epoch-checkpoint` (Kafka's
LeaderEpochFileCache).

The file may lack an epoch without records, because a start of the broker forgets such an epoch.
"""

from __future__ import annotations

from typing import Final

from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.refusals import Refusals
from oncelog_server.log.whole_files import swap_in
from oncelog_server.storage.files import File, Files
from oncelog_server.storage.layout import LEADER_EPOCH_CHECKPOINT


class EpochFile:
    """The file. `epochs` is the state in memory. `refusals` repeats a write that the disk has
    refused."""

    __slots__ = ("_files", "_path", "_refusals", "_unsynced", "epochs", "written_epoch")

    def __init__(
        self,
        files: Files,
        directory: str,
        epochs: LeaderEpochs,
        refusals: Refusals,
        *,
        unsynced: bool,
    ) -> None:
        self._files = files
        self._path: Final = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._refusals = refusals
        # True if the file may be older on disk than in the page cache.
        self._unsynced = unsynced
        self.epochs: Final = epochs
        # The latest epoch in the file. Every append compares its epoch with this value.
        self.written_epoch = epochs.latest_epoch

    def note(self, epoch: int, offset: int) -> None:
        """If the file does not have `epoch`, add it with the start offset `offset`, and write the
        file."""
        if epoch > self.written_epoch:
            self.epochs.assign(epoch, offset)
            self.write()

    def write(self) -> None:
        """Write the file, now or at the next retry."""
        self.written_epoch = self.epochs.latest_epoch
        self._refusals.write_or_owe(self._path, self._swap_in)

    def _swap_in(self) -> None:
        swap_in(self._files, self._path, self.epochs.encode())
        self._unsynced = True

    def start_at(self, offset: int) -> None:
        """Remove the epochs below `offset`, the new start of the log."""
        if self.epochs.truncate_from_start(offset):
            self.write()

    def end_at(self, offset: int) -> None:
        """Remove the epochs from `offset` on, the new end of the log."""
        if self.epochs.truncate_from_end(offset):
            self.write()

    def forget_empty(self, end_offset: int) -> None:
        """Remove the epochs without records from a follower's log, which ends at `end_offset`: such
        an epoch exists if this broker was leader and appended nothing. The next append writes the
        file."""
        if self.epochs.truncate_from_end(end_offset):
            self.written_epoch = self.epochs.latest_epoch

    def take_unsynced(self) -> list[File]:
        """Return a list with the file if the next sync must include the file, else an empty list.
        Raises StorageError."""
        if not self._unsynced:
            return []
        self._unsynced = False
        return [self._files.open(self._path)] if self._files.exists(self._path) else []
