"""The writes that the disk refused, and the side files that are still to be written.

The `.log` file is the source of truth. A refused append changes nothing and may be retried. The
other files (the side files) are computed from the `.log` file, and their contents are in memory
too. If the disk refuses a side file, the log writes the file later and continues to serve. The
files marked `needed` are written before a segment is rolled and before a clean stop, so that no
start trusts an incomplete file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_server.storage.files import File, StorageError

# To find out if the disk has space for a refused append again, a retry writes zeros: at most this
# number.
_PROBE_BYTES: Final = 1 << 20


class Refusals:
    """The refused writes of one log. `current` is the first error since the disk last accepted all
    writes. None means that no write is refused. `on_refused` is called when an error becomes
    `current`. The owner of the log then calls `try_again` until the call succeeds. While there is a
    `failure`, the log refuses appends. `on_failed` is called with the failure that lasts until a
    restart."""

    __slots__ = ("_interruption", "_owed", "_probe_bytes", "_roll", "current", "failure",
                 "interrupted", "on_failed", "on_refused")  # fmt: skip

    def __init__(self) -> None:
        self.current: StorageError | None = None
        self.on_refused: Callable[[StorageError], None] | None = None
        self.on_failed: Callable[[StorageError], None] | None = None
        # By path: the function that writes the file, and True if a start would be wrong with the
        # old file.
        self._owed: dict[str, tuple[Callable[[], None], bool]] = {}
        # Bytes of the largest refused append, at most _PROBE_BYTES.
        self._probe_bytes = 0
        # True if the disk refused a new segment.
        self._roll = False
        # The undo of an operation that failed halfway, if the disk refused the undo too. This
        # function runs before all other retries.
        self.interrupted: Callable[[], None] | None = None
        self.failure: StorageError | None = None
        # The failure that lasts until the interrupted operation is undone.
        self._interruption: StorageError | None = None

    @property
    def refuses_appends(self) -> bool:
        """True if the last append, or the segment that it needed, was refused, or the log has
        failed."""
        return self.failure is not None or self._roll or self._probe_bytes > 0

    def report_to(self, on_refused: Callable[[StorageError], None]) -> None:
        self.on_refused = on_refused

    def report_failure_to(self, on_failed: Callable[[StorageError], None]) -> None:
        self.on_failed = on_failed

    @property
    def has_failed(self) -> bool:
        """True if the log refuses every append until a restart."""
        return self.failure is not None and self.failure is not self._interruption

    def fail(self, error: StorageError) -> None:
        """Refuse every append from now on, because only a restart can read the state of the disk.
        Call `on_failed`, unless the log has failed before."""
        if not self.has_failed:
            self.failure = error
            if self.on_failed is not None:
                self.on_failed(error)

    def end(self, error: StorageError) -> None:
        """Refuse every append from now on, because the log is deleted. `on_failed` is not
        called."""
        if not self.has_failed:
            self.failure = error

    def raise_failure(self) -> None:
        """Raise the failure again, if there is one."""
        if (failure := self.failure) is not None:
            raise StorageError(failure.operation, failure.path, failure.reason)

    def interrupt(self, error: StorageError, undo: Callable[[], None]) -> None:
        """Refuse every append until `undo` succeeds. Some segments have new names, and the disk
        refused both to rename the others and to restore the names."""
        if self.failure is None:
            self.failure = self._interruption = error
        self.interrupted = undo
        self.refused(error)

    def undo_interrupted(self) -> None:
        """Undo the interrupted operation. Raises StorageError if the disk also refuses the undo."""
        if self.interrupted is None:
            return
        self.interrupted()
        self.interrupted = None
        if self.failure is self._interruption:
            self.failure = None
        self._interruption = None

    def refused(self, error: StorageError) -> None:
        """Record a refused write. `current` stays until `try_again` succeeds."""
        if self.current is None:
            self.current = error
            if self.on_refused is not None:
                self.on_refused(error)

    def append_refused(self, error: StorageError, size: int) -> None:
        self._probe_bytes = max(self._probe_bytes, min(size, _PROBE_BYTES))
        self.refused(error)

    def roll_refused(self, error: StorageError) -> None:
        self._roll = True
        self.refused(error)

    def write_or_owe(self, path: str, write: Callable[[], None], *, needed: bool = True) -> None:
        """Write a side file now. If the disk refuses the file, write it later. `write` writes the
        state in memory at the time of its call. `needed`: True if a start with the old file would
        be wrong, not only slow."""
        try:
            write()
        except StorageError as error:
            self._owed[path] = write, needed
            self.refused(error)
        else:
            self._owed.pop(path, None)

    def write_owed(self, *, needed_only: bool = True) -> None:
        """Write the side files that the disk has refused. With `needed_only`, write only the files
        marked `needed`. Raises StorageError at the first file that is refused again."""
        for path, (write, needed) in list(self._owed.items()):
            if needed or not needed_only:
                write()
                del self._owed[path]

    def try_again(self, log: Callable[[], File], roll: Callable[[], None]) -> None:
        """Retry the refused writes. In place of a refused append, probe the file that `log` returns
        with the same number of bytes, at most 1 MiB. Raises StorageError if the disk refuses."""
        if self.current is None:
            return
        if self._roll:
            roll()
            self._roll = False
        self.write_owed(needed_only=False)  # after the roll, which may add files to write
        if self._probe_bytes:
            log().probe(self._probe_bytes)  # after the roll: a closed segment must get no bytes
            self._probe_bytes = 0
        self.current = None
