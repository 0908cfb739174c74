"""`oncelog-metadata.txt`: a copy of the metadata store's records as text, next to the store's file.

Each line is a JSON array. The first line is `["oncelog-metadata", 1, <bytes of the snapshot>]`.
Groups of lines follow. Each group ends with `["end", <revision>, "<CRC-32>"]`. The first group is a
snapshot. Each later group holds the changes of one transaction, as `["put", <create revision>, <mod
revision>, <key>, <value>]` or `["delete", <key>]`. The checksum covers all bytes before the line of
the checksum. Lines after the last valid `end` are torn and do not count. Records with a lease are
left out, because these records end with the process.

A single write appends a group, before the group's transaction returns. The store's next checkpoint
syncs the file. A group that takes producer ids is synced at once. When the changes outgrow the
snapshot, the file is rewritten under another name, synced and renamed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.operating_system.file_modes import FILE_MODE, restrict
from oncelog_server.storage.layout import TEMPORARY_SUFFIX

TITLE: Final = "oncelog-metadata"
VERSION: Final = 1
# The file is rewritten when its changes exceed the snapshot by this number of bytes.
SLACK_BYTES: Final = 256 << 10

_END_MARK: Final = b'["end",'

Entries = Callable[[], Iterable[Entry]]


class MalformedCopy(ValueError):
    """The file has no complete snapshot."""


class TextCopy:
    """The file at `path`, open for appending. Only the store's thread uses the object.

    `failure` is the reason why the file lacks the last change. None means that the file has the
    last change. `refresh` rewrites the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: OSError | None = None
        self._descriptor = -1
        self._crc = 0
        self._size = 0
        self._limit = 0
        self._unsynced = False

    def open(self, revision: int, entries: Entries) -> int:
        """Continue the file if the file ends at `revision`. Otherwise rewrite the file from
        `entries`.

        Return the revision at which the file ended. If the file ended after `revision`, the file
        stays unchanged.
        """
        data = b""
        with suppress(FileNotFoundError):
            data = self.path.read_bytes()
        found = last_revision(data)
        if found > revision:
            return found
        if found == revision and data.endswith(b"\n"):
            restrict(self.path)
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            self._crc, self._size = crc32(data), len(data)
            self._limit = 2 * _snapshot_bytes(data) + SLACK_BYTES
        else:
            self.refresh(revision, entries)
        return found

    def add(
        self, revision: int, changes: Sequence[tuple[str, Entry | None]], entries: Entries
    ) -> None:
        """Append one transaction. `changes` has its keys, each with the new entry, or with None for
        a deleted key."""
        if self.failure is not None or self._size > self._limit:
            self.refresh(revision, entries)
            return
        body = b"".join(_line(key, entry) for key, entry in changes)
        crc = crc32(body, self._crc)
        end = _end(revision, crc)
        try:
            _write_all(self._descriptor, body + end)
        except OSError as error:
            self.failure = error
            return
        self._crc = crc32(end, crc)
        self._size += len(body) + len(end)
        self._unsynced = True

    def refresh(self, revision: int, entries: Entries) -> None:
        """Rewrite the file from `entries`, atomically and synced. Set `failure` if the rewrite
        fails."""
        temporary = self.path.with_name(self.path.name + TEMPORARY_SUFFIX)
        data = encode_copy(revision, entries())
        try:
            self._replace(temporary, data)
        except OSError as error:
            self.failure = error
            with suppress(OSError):
                temporary.unlink()
            return
        self.failure = None
        self._unsynced = False
        self._crc, self._size = crc32(data), len(data)
        self._limit = 2 * len(data) + SLACK_BYTES

    def sync(self) -> None:
        if self._unsynced and self.failure is None:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self.failure = error
            else:
                self._unsynced = False

    def close(self) -> None:
        self.sync()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _replace(self, temporary: Path, data: bytes) -> None:
        """Replace the file by `data`. After an OSError the old file is still there."""
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, FILE_MODE
        )
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
            os.replace(temporary, self.path)
            _sync_directory(self.path.parent)
        except OSError:
            os.close(descriptor)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor


def encode_copy(revision: int, entries: Iterable[Entry]) -> bytes:
    """Return the content of a file that is one snapshot of `entries`."""
    body = b"".join(_line(entry.key, entry) for entry in entries)
    head = _ENCODER.encode([TITLE, VERSION, len(body)]) + b"\n" + body
    return head + _end(revision, crc32(head))


def decode_copy(data: bytes) -> Snapshot:
    """Return the records as of the last complete group. Raises MalformedCopy if there is none."""
    entries: dict[str, Entry] = {}
    group: list[tuple[str, Entry | None]] = []
    revision = -1
    position = 0
    crc = 0
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            row = _DECODER.decode(line)
            if position == 0:
                _check_title(row)
            elif line.startswith(_END_MARK):
                if row[2] != _hex(crc):
                    break
                _apply(entries, group)
                revision, group = int(row[1]), []
            else:
                group.append(_change(row))
        except (msgspec.DecodeError, LookupError, TypeError, ValueError):
            break
        position += len(line)
        crc = crc32(line, crc)
    if revision < 0:
        raise MalformedCopy("it has no complete snapshot")
    return Snapshot(revision, tuple(entries[key] for key in sorted(entries)))


def last_revision(data: bytes) -> int:
    """Return the revision at which the file ends, -1 if it has no complete snapshot."""
    tail = data.rfind(_END_MARK)
    if tail >= 0 and data.endswith(b"\n") and data.find(b"\n", tail) == len(data) - 1:
        with suppress(msgspec.DecodeError, LookupError, TypeError, ValueError):
            row = _DECODER.decode(data[tail:])
            if row[2] == _hex(crc32(memoryview(data)[:tail])):
                return int(row[1])
    try:
        return decode_copy(data).revision
    except MalformedCopy:
        return -1


def _check_title(row: Any) -> None:
    if row[0] != TITLE or row[1] != VERSION:
        raise ValueError(f"not a copy of version {VERSION}: {row}")


def _snapshot_bytes(data: bytes) -> int:
    try:
        return int(_DECODER.decode(data[: data.index(b"\n")])[2])
    except (msgspec.DecodeError, LookupError, TypeError, ValueError):
        return 0


def _line(key: str, entry: Entry | None) -> bytes:
    if entry is None:
        return _ENCODER.encode(["delete", key]) + b"\n"
    value = msgspec.Raw(entry.value)
    return _ENCODER.encode(["put", entry.create_revision, entry.mod_revision, key, value]) + b"\n"


def _change(row: Any) -> tuple[str, Entry | None]:
    """Return the key and the entry of a line. Raises LookupError, TypeError or ValueError."""
    if row[0] == "delete":
        return str(row[1]), None
    if row[0] != "put":
        raise ValueError(f"unknown line {row[0]!r}")
    _, created, modified, key, value = row
    return key, Entry(key, _ENCODER.encode(value), int(created), int(modified))


def _apply(entries: dict[str, Entry], group: Sequence[tuple[str, Entry | None]]) -> None:
    for key, entry in group:
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry


def _end(revision: int, crc: int) -> bytes:
    return _ENCODER.encode(["end", revision, _hex(crc)]) + b"\n"


def _hex(crc: int) -> str:
    return f"{crc:08x}"


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
