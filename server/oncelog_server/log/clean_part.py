"""The part of a log that compaction has cleaned, and the pass that cleans the log now."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.log.leftovers import undo_compaction
from oncelog_server.storage.files import Files


class CleanPart:
    """The records below `end_offset` are clean: a pass has removed their superseded records.

    The offset belongs to the log, and not to its name: a log that is created again, or comes back
    to this broker, has no clean part. A cut of the log also cuts the clean part. So the offset is
    never too large: the next pass does not read the keys of records that count as clean. If one of
    them superseded an older record, that record would stay, also after the removal of a tombstone.
    """

    __slots__ = ("_directory", "_end_pass", "_files", "end_offset", "leaves")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        # None if nothing is known to be clean.
        self.end_offset: int | None = None
        # True from the moment when the metadata no longer assigns the log to this broker.
        self.leaves = False
        self._end_pass: Callable[[], None] | None = None

    def restore(self, end_offset: int | None, log_end_offset: int) -> None:
        """Set the offset of the checkpoint, for a log that was there at the last stop. An offset
        above the log's end is ignored, because the log has lost records."""
        if end_offset is not None and end_offset <= log_end_offset:
            self.end_offset = end_offset

    def extend(self, end_offset: int) -> None:
        """Note that a pass has cleaned the log up to `end_offset`."""
        if not self.leaves:
            self.end_offset = end_offset

    def lower(self, offset: int) -> None:
        """Let the clean part end at `offset` at most, because the log will be cut there."""
        if self.end_offset is not None:
            self.end_offset = min(self.end_offset, offset)

    def begin_cut(self, offset: int) -> None:
        """End compaction before the log is cut at `offset`. Otherwise a start would complete the
        swap of the pass, and bring back records from before the cut. Raises StorageError."""
        self.end_pass()
        undo_compaction(self._files, self._directory)
        self.lower(offset)

    def leave(self) -> None:
        """Note that the log leaves this broker. From now on, no checkpoint has its offset."""
        self.leaves = True
        self.end_offset = None

    def begin_pass(self, end: Callable[[], None]) -> None:
        """Note the pass that cleans the log. `end` ends the pass, which then changes no file any
        more."""
        self._end_pass = end

    def pass_ended(self) -> None:
        self._end_pass = None

    def end_pass(self) -> None:
        """End the pass, if there is one, because other code is about to change the segments that
        the pass reads, or the names of its files (Kafka's abortAndPauseCleaning)."""
        if self._end_pass is not None:
            end, self._end_pass = self._end_pass, None
            end()
