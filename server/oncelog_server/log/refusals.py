"""What the disk refused a log, and the side files that it is owed.

The `.log` is the truth: an append that is refused changes nothing and may be tried again. Files
beside it are computed from it and are held in memory; where the disk refuses one, its writing is
owed and the log serves on. All that is owed is written before a segment is rolled and before a
clean stop, so that no start believes a file which lacks something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_server.storage.files import File, StorageError

# How much of what was refused is written to find out whether there is room again.
_PROBE_BYTES: Final = 1 << 20


class Refusals:
    """`current` is the first refusal since the disk last took everything, None if it does.
    `on_refused` is called once for each `current`; its owner then calls `try_again` until that
    succeeds. While there is a `failure`, nothing is appended."""

    __slots__ = ("_interruption", "_owed", "_probe_bytes", "_roll", "current", "failure",
                 "interrupted", "on_refused")  # fmt: skip

    def __init__(self) -> None:
        self.current: StorageError | None = None
        self.on_refused: Callable[[StorageError], None] | None = None
        # By path: how it is written, and whether a start may believe what is there without it.
        self._owed: dict[str, tuple[Callable[[], None], bool]] = {}
        # The longest append that was refused, and whether a new segment was.
        self._probe_bytes = 0
        self._roll = False
        # Undoes what was begun and could be neither finished nor undone; it comes before all else.
        self.interrupted: Callable[[], None] | None = None
        self.failure: StorageError | None = None
        # The failure that ends when what the disk interrupted is undone.
        self._interruption: StorageError | None = None

    def report_to(self, on_refused: Callable[[StorageError], None]) -> None:
        self.on_refused = on_refused

    def fail(self, error: StorageError) -> None:
        """Refuse every append from now on: what is on the disk is known only after a restart."""
        if self.failure is None or self.failure is self._interruption:
            self.failure = error

    def raise_failure(self) -> None:
        """Raise the failure again, if there is one."""
        if (failure := self.failure) is not None:
            raise StorageError(failure.operation, failure.path, failure.reason)

    def interrupt(self, error: StorageError, undo: Callable[[], None]) -> None:
        """Fail until `undo` succeeds: names of segments are half changed, and the disk took neither
        the rest nor the first part back."""
        if self.failure is None:
            self.failure = self._interruption = error
        self.interrupted = undo
        self.refused(error)

    def undo_interrupted(self) -> None:
        """Undo what the disk interrupted. Raises StorageError while the disk refuses that, too."""
        if self.interrupted is None:
            return
        self.interrupted()
        self.interrupted = None
        if self.failure is self._interruption:
            self.failure = None
        self._interruption = None

    def refused(self, error: StorageError) -> None:
        """Remember that something was refused: `current` stays until `try_again` succeeds."""
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
        """Write a side file, or remember to: `write` brings `path` up to what is in memory when it
        is called. `needed`: a start that finds it old would be wrong, not only slow."""
        try:
            write()
        except StorageError as error:
            self._owed[path] = write, needed
            self.refused(error)
        else:
            self._owed.pop(path, None)

    def write_owed(self, *, needed_only: bool = True) -> None:
        """Write what is owed. Raises StorageError at the first that is refused again."""
        for path, (write, needed) in list(self._owed.items()):
            if needed or not needed_only:
                write()
                del self._owed[path]

    def try_again(self, log: File, roll: Callable[[], None]) -> None:
        """Do what was refused, and prove that what could not be appended fits now: bytes as many
        are appended to `log` and cut off again. Raises StorageError while the disk refuses."""
        if self.current is None:
            return
        self.write_owed(needed_only=False)
        if self._roll:
            roll()
            self._roll = False
        if self._probe_bytes:
            size = log.size
            log.append(bytes(self._probe_bytes))
            log.truncate(size)
            self._probe_bytes = 0
        self.current = None
