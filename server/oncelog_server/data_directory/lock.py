"""The data directory as a whole: its lock, its mark of a clean stop, the boot id of the computer,
meta.properties and the checkpoints."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
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
from oncelog_server.operating_system.file_modes import DIRECTORY_MODE, FILE_MODE
from oncelog_server.slices import Steps
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    BOOT,
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    CLOSED_LOGS_CHECKPOINT,
    CLUSTER_REVISION,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    METADATA_FILE,
    METADATA_NAME,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_directory,
)

log = structlog.get_logger("oncelog.storage")

CheckpointOffsets = Mapping[tuple[str, int], int]
# The files that a first start writes, besides those of the metadata store.
_OF_A_START: Final = (LOCK, META_PROPERTIES, CLUSTER_REVISION)


class _CleanMark(msgspec.Struct, frozen=True):
    """The mark of a clean stop in Kafka's format (CleanShutdownFileHandler)."""

    version: int = 0
    broker_epoch: int = msgspec.field(default=0, name="brokerEpoch")


class SeenRevision(msgspec.Struct, frozen=True):
    """The newest revision that a data directory has seen of a metadata store outside of the
    directory. `restored_at` is that of the image (`ClusterImage`), because a restored store counts
    its revisions anew."""

    revision: int
    restored_at: int = 0

    def encode(self) -> bytes:
        return b"%d" % self.revision + (b" %d" % self.restored_at if self.restored_at else b"")


class DirectoryInUse(Exception):
    """Another process uses the data directory."""


class DataDirectory:
    """The data directory. Call `lock` before its use, and `release` after it."""

    def __init__(self, path: str) -> None:
        self.path = _absolute(path)
        self._lock: int | None = None
        self._was_there = True
        self._was_empty = False
        # The names in the directory before this start.
        self._found: frozenset[str] = frozenset()

    def lock(self) -> None:
        """Lock the directory, and create it first if it does not exist. Raises ForeignDirectory if
        it is neither oncelog's nor empty, NeedsRecovery if its metadata is lost, DirectoryInUse if
        another process holds the lock, and OSError with the path.
        """
        try:
            _check_links(self.path)
            check_ownership(self.path)
            self._was_there = self.path.exists()
            self._was_empty = not any(
                (self.path / name).exists() for name in (METADATA_FILE, CLUSTER_REVISION)
            )
            if self._was_there:
                self._found = frozenset(os.listdir(self.path))
            self.path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        self.take()

    def take(self) -> None:
        """Lock an existing directory, whatever it contains. Raises DirectoryInUse and OSError."""
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            from oncelog_server.operating_system.lock_owner import lock_owner

            owner = lock_owner((self.path / LOCK).resolve()) or "it"
            raise DirectoryInUse(
                f"another process uses the data directory {self.path} "
                f"({owner} holds {self.path / LOCK}); stop it, or give --data another directory"
            ) from error
        self._lock = descriptor

    def _unusable(self, error: OSError) -> OSError:
        return OSError(
            f"the data directory {self.path} cannot be created or written to: {error.strerror}"
        )

    def unmake(self) -> None:
        """Delete oncelog's files after a refused first start in a new or empty directory. Of the
        folders of partitions, delete those that this start has created.

        Raises OSError.
        """
        if not self._was_empty or self._lock is None:
            return
        import shutil  # no other start needs it

        for path in self.path.iterdir():
            if path.name in _OF_A_START or path.name.startswith(METADATA_NAME):
                path.unlink()
            elif path.name not in self._found and parse_partition_directory(path.name) is not None:
                shutil.rmtree(path)
        if not self._was_there:
            self.path.rmdir()

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def has_clean_mark(self) -> bool:
        """Return True if the last stop was clean."""
        return self._read(CLEAN_SHUTDOWN) is not None

    def take_clean_mark(self) -> None:
        """Delete the mark of a clean stop, durably. Raises OSError."""
        try:
            (self.path / CLEAN_SHUTDOWN).unlink()
        except FileNotFoundError:
            return
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def clean_stop_epoch(self) -> int:
        """Return the broker epoch in the mark of a clean stop, 0 without a mark or an epoch."""
        data = self._read(CLEAN_SHUTDOWN)
        try:
            return 0 if data is None else msgspec.json.decode(data, type=_CleanMark).broker_epoch
        except msgspec.DecodeError:
            return 0

    def leave_clean_mark(self, files: Files, broker_epoch: int) -> None:
        """Write the mark of a clean stop, with the epoch of the broker's registration. This is the
        last step of the stop. Raises StorageError."""
        files.replace(CLEAN_SHUTDOWN, msgspec.json.encode(_CleanMark(0, broker_epoch)))

    def cluster_revision(self) -> SeenRevision | None:
        """Return the newest revision that the directory has seen of a metadata store outside of it.
        Return None if the metadata is in the directory. Raises OSError. Raises ValueError if the
        file is damaged."""
        data = self._read(CLUSTER_REVISION)
        if data is None:
            return None
        numbers = data.split(b" ")
        if len(numbers) > 2 or not all(map(bytes.isdigit, numbers)):
            raise ValueError(f"{self.path / CLUSTER_REVISION} is damaged: it holds no number")
        return SeenRevision(*map(int, numbers))

    def keep_cluster_revision(self, seen: SeenRevision, files: Files) -> None:
        """Record that the metadata is outside of the directory, at this revision or a later one.
        Raises StorageError."""
        files.replace(CLUSTER_REVISION, seen.encode())

    def was_kept_by(self, boot: str) -> bool:
        """Return True if the computer has not rebooted since all logs were opened. `boot` is the
        computer's present boot id. If the broker was killed in this boot, no written byte was lost,
        synced or not. Return False if the boot id is unknown.
        """
        try:
            return bool(boot) and self._read(BOOT) == boot.encode()
        except OSError:
            return False

    def keep_by(self, boot: str, files: Files) -> None:
        """Record that all logs are open and valid in this boot; see `was_kept_by`. Raises
        StorageError."""
        if boot and not self.was_kept_by(boot):
            # No sync is needed: after a power failure the boot id is another one.
            swap_in(files, BOOT, boot.encode())

    def meta_properties(self) -> MetaProperties | None:
        """Return meta.properties, None without the file. Raises NeedsRecovery if it is damaged."""
        data = self._read(META_PROPERTIES)
        if data is None:
            return None
        try:
            return decode_meta_properties(data)
        except MalformedCheckpoint as error:
            raise NeedsRecovery(self.path, f"{self.path / META_PROPERTIES} {error}") from None

    def write_meta_properties(self, files: Files, meta: MetaProperties) -> None:
        files.replace(META_PROPERTIES, encode_meta_properties(meta))

    def recovery_points(self) -> CheckpointOffsets:
        return self._offsets(RECOVERY_POINT_CHECKPOINT)

    def log_start_offsets(self) -> CheckpointOffsets:
        return self._offsets(LOG_START_CHECKPOINT)

    def high_watermarks(self) -> CheckpointOffsets:
        return self._offsets(HIGH_WATERMARK_CHECKPOINT)

    def cleaned_offsets(self) -> CheckpointOffsets:
        """Return the offset of each log up to which the log is compacted."""
        return self._offsets(CLEANER_CHECKPOINT)

    def closed_logs(self) -> ClosedLogs:
        """Return the state of each log at the last stop. It is valid only after a clean stop.

        A missing or damaged checkpoint counts as empty; every log is then read.
        """
        try:
            data = self._read(CLOSED_LOGS_CHECKPOINT)
            return {} if data is None else decode_closed_logs(data)
        except (MalformedCheckpoint, OSError) as error:
            self._ignored(CLOSED_LOGS_CHECKPOINT, error)
            return {}

    def _offsets(self, name: str) -> CheckpointOffsets:
        """Return the offsets of a checkpoint.

        A missing or damaged checkpoint counts as empty; all logs are then scanned (S8), or
        compacted again.
        """
        try:
            data = self._read(name)
            return {} if data is None else decode_offsets(data)
        except (MalformedCheckpoint, OSError) as error:
            self._ignored(name, error)
            return {}

    def _ignored(self, name: str, error: Exception) -> None:
        log.warning("checkpoint ignored", file=str(self.path / name), reason=str(error))

    def _read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist. Raises OSError."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None


def _absolute(path: str) -> Path:
    """Return the absolute path.

    Raises OSError if the path is relative and the current directory has been deleted.
    """
    try:
        return Path(path).absolute()
    except FileNotFoundError:
        raise OSError(
            f"the data directory {path} is relative to the current directory, which has been "
            "deleted: change to another one, or give --data an absolute path"
        ) from None


def _check_links(path: Path) -> None:
    """Raise OSError, with the cause, for a file, a loop of links or a broken link. For all of them,
    mkdir would only say "File exists"."""
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
    recovery_points: CheckpointOffsets,
    start_offsets: CheckpointOffsets,
    watermarks: CheckpointOffsets,
) -> Steps[dict[str, bytes]]:
    """Return the content of the checkpoint files by name, in steps."""
    contents = {}
    for path, offsets in (
        (RECOVERY_POINT_CHECKPOINT, recovery_points),
        (LOG_START_CHECKPOINT, start_offsets),
        (HIGH_WATERMARK_CHECKPOINT, watermarks),
    ):
        contents[path] = yield from checkpoint_of(offsets)
    return contents


def checkpoint_of(offsets: CheckpointOffsets) -> Steps[bytes]:
    """Return the content of one checkpoint file, in steps."""
    lines = []
    for name, offset in offsets.items():
        lines.append(offset_line(name, offset))
        yield
    content = encode_lines(lines)
    yield
    return content
