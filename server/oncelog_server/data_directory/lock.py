"""The data directory as a whole: its owner, its lock against other processes, and its marks of the
last stop."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from oncelog_server.data_directory.ownership import NeedsRecovery, check_ownership
from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    MetaProperties,
    decode_meta_properties,
    decode_offsets,
    encode_lines,
    encode_meta_properties,
    offset_line,
)
from oncelog_server.log.closed import ClosedLogs, decode_closed_logs
from oncelog_server.log.whole_files import swap_in
from oncelog_server.slices import Steps
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.storage.layout import (
    BOOT,
    CLEAN_SHUTDOWN,
    CLOSED_LOGS_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    METADATA_FILE,
    METADATA_NAME,
    RECOVERY_POINT_CHECKPOINT,
)

log = structlog.get_logger("oncelog.storage")

Offsets = Mapping[tuple[str, int], int]


class DirectoryInUse(Exception):
    """Another process works on the same data."""


class DataDirectory:
    """Open with `lock`; give back with `release`."""

    def __init__(self, path: str) -> None:
        self.path = _absolute(path)
        self._lock: int | None = None
        self._was_there = True
        self._was_empty = False

    def lock(self) -> None:
        """Make the directory and take it, if it is oncelog's or empty.

        Raises ForeignDirectory, NeedsRecovery, DirectoryInUse, and OSError with its path.
        """
        try:
            _check_links(self.path)
            check_ownership(self.path)
            self._was_there = self.path.exists()
            self._was_empty = not (self.path / METADATA_FILE).exists()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        self.take()

    def take(self) -> None:
        """Take a directory that is there, whatever is in it. Raises DirectoryInUse and OSError."""
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            from oncelog_server.storage.lock_owner import lock_owner

            owner = lock_owner((self.path / LOCK).resolve()) or "it"
            raise DirectoryInUse(
                f"another process uses the data directory {self.path} "
                f"({owner} holds {self.path / LOCK}); stop it, or give --data another directory"
            ) from error
        self._lock = descriptor

    def _unusable(self, error: OSError) -> OSError:
        return OSError(
            f"the data directory {self.path} cannot be made or written to: {error.strerror}"
        )

    def unmake(self) -> None:
        """Leave nothing in a directory that was new or empty, as its first start was refused.
        Raises OSError."""
        if not self._was_empty or self._lock is None:
            return
        for path in self.path.iterdir():
            if path.name in (LOCK, META_PROPERTIES) or path.name.startswith(METADATA_NAME):
                path.unlink()
        if not self._was_there:
            self.path.rmdir()

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def has_clean_mark(self) -> bool:
        """Whether the last stop was clean."""
        return self._read(CLEAN_SHUTDOWN) is not None

    def take_clean_mark(self) -> None:
        """From now on the last stop was not clean, whatever happens to the power. Raises
        OSError."""
        try:
            (self.path / CLEAN_SHUTDOWN).unlink()
        except FileNotFoundError:
            return
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def leave_clean_mark(self, files: Files) -> None:
        """The very last step of a clean stop."""
        files.replace(CLEAN_SHUTDOWN, b'{"version":0}')

    def was_kept_by(self, boot: str) -> bool:
        """Whether the computer has run since all logs were opened: then a kill has lost nothing of
        what was written, synced or not. False where it is not known."""
        try:
            return bool(boot) and self._read(BOOT) == boot.encode()
        except OSError:
            return False

    def keep_by(self, boot: str, files: Files) -> None:
        """All logs are open and whole; see `was_kept_by`. Left undone if the disk refuses it."""
        if boot and not self.was_kept_by(boot):
            with suppress(StorageError):
                # Without a sync: a power failure that loses it comes with another boot.
                swap_in(files, BOOT, boot.encode())

    def meta_properties(self) -> MetaProperties | None:
        """None for a new directory. Raises NeedsRecovery for a file that is damaged."""
        data = self._read(META_PROPERTIES)
        if data is None:
            return None
        try:
            return decode_meta_properties(data)
        except MalformedCheckpoint as error:
            raise NeedsRecovery(self.path, f"{self.path / META_PROPERTIES} {error}") from None

    def write_meta_properties(self, files: Files, meta: MetaProperties) -> None:
        files.replace(META_PROPERTIES, encode_meta_properties(meta))

    def recovery_points(self) -> Offsets:
        return self._offsets(RECOVERY_POINT_CHECKPOINT)

    def log_start_offsets(self) -> Offsets:
        return self._offsets(LOG_START_CHECKPOINT)

    def closed_logs(self) -> ClosedLogs:
        """Return what the last stop has remembered of the logs; to be believed if it was clean. A
        missing or broken checkpoint counts as empty: every log is read then."""
        try:
            data = self._read(CLOSED_LOGS_CHECKPOINT)
            return {} if data is None else decode_closed_logs(data)
        except (MalformedCheckpoint, OSError) as error:
            self._ignored(CLOSED_LOGS_CHECKPOINT, error)
            return {}

    def _offsets(self, name: str) -> Offsets:
        """A missing or broken checkpoint counts as empty: everything is scanned then (S8)."""
        try:
            data = self._read(name)
            return {} if data is None else decode_offsets(data)
        except (MalformedCheckpoint, OSError) as error:
            self._ignored(name, error)
            return {}

    def _ignored(self, name: str, error: Exception) -> None:
        log.warning("checkpoint ignored", file=str(self.path / name), reason=str(error))

    def _read(self, name: str) -> bytes | None:
        """None where there is no such file. Raises OSError."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None


def _absolute(path: str) -> Path:
    """Raises OSError for a relative path where the current directory has been deleted."""
    try:
        return Path(path).absolute()
    except FileNotFoundError:
        raise OSError(
            f"the data directory {path} is relative to the current directory, which has been "
            "deleted: change to another one, or give --data an absolute path"
        ) from None


def _check_links(path: Path) -> None:
    """Raise OSError for what mkdir calls "File exists": a file, a loop of links, a broken link."""
    for part in (path, *path.parents):
        if not os.path.lexists(part):
            continue
        if part.is_symlink():
            try:
                part.resolve(strict=True)
            except (OSError, RuntimeError) as error:
                loops = isinstance(error, RuntimeError) or error.errno == errno.ELOOP
                why = "a loop of symbolic links" if loops else "its target does not exist"
                raise OSError(errno.ENOENT, f"{part} is a symbolic link: {why}") from None
        if not part.is_dir():
            raise OSError(errno.ENOTDIR, f"{part} is a file, not a directory")
        return


def checkpoints_of(
    recovery_points: Offsets, start_offsets: Offsets, watermarks: Offsets
) -> Steps[dict[str, bytes]]:
    """Return the checkpoints' files: name and content."""
    contents = {}
    for path, offsets in (
        (RECOVERY_POINT_CHECKPOINT, recovery_points),
        (LOG_START_CHECKPOINT, start_offsets),
        (HIGH_WATERMARK_CHECKPOINT, watermarks),
    ):
        lines = []
        for name, offset in offsets.items():
            lines.append(offset_line(name, offset))
            yield
        contents[path] = encode_lines(lines)
        yield
    return contents
