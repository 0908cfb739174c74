"""The facts about the last stop that the data directory has, for the start after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.log.closed import ClosedLogs

CheckpointOffsets = Mapping[tuple[str, int], int]


class LastStop(msgspec.Struct, frozen=True):
    """The data directory's state at the last stop."""

    was_clean: bool
    # True if the computer has not stopped since then, so no write was lost.
    lost_nothing: bool
    recovery_points: CheckpointOffsets
    log_start_offsets: CheckpointOffsets
    # Empty if the stop was not clean.
    closed_logs: ClosedLogs
    high_watermarks: CheckpointOffsets
    # The offsets up to which the logs are compacted.
    cleaned_offsets: CheckpointOffsets

    def unknown_topics(self, known: Collection[str]) -> set[str]:
        """Return the topics that are in the checkpoints and not among the known topics."""
        named = (*self.recovery_points, *self.log_start_offsets, *self.cleaned_offsets)
        return {topic for topic, _ in named} - set(known)


def read_last_stop(directory: DataDirectory, boot: str, *, was_clean: bool) -> LastStop:
    """Read the checkpoints. `boot` identifies the computer's present boot."""
    return LastStop(
        was_clean,
        directory.was_kept_by(boot),
        directory.recovery_points(),
        directory.log_start_offsets(),
        directory.closed_logs() if was_clean else {},
        directory.high_watermarks(),
        directory.cleaned_offsets(),
    )
