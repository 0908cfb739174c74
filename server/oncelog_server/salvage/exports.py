"""The file of `oncelog cluster export`: all lasting records of a cluster at one revision, in the
format of the text copy."""

from __future__ import annotations

import os
from pathlib import Path

from oncelog_server.cluster import records
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.metadata.text_copy import MalformedCopy, decode_copy, encode_copy
from oncelog_server.salvage.changes import replace_file
from oncelog_server.salvage.planning.known import Known


def write_export(path: Path, snapshot: Snapshot) -> int:
    """Write the lasting records to a new file that only its owner may read, because they have
    password hashes and the secret of the brokers. Return their number. Raises OSError."""
    if path.exists():
        raise FileExistsError(f"{path} exists: give the export a new name")
    entries: list[Entry] = [
        entry
        for entry in snapshot.entries
        if not entry.key.startswith(records.LEASED) and entry.key != records.RESTORED
    ]
    replace_file(path, encode_copy(snapshot.revision, entries))
    return len(entries)


def read_export(path: Path) -> Known:
    """Return the metadata in a file. Raises OSError, and ValueError if it is damaged."""
    data = path.read_bytes()
    try:
        snapshot = decode_copy(data)
    except MalformedCopy as error:
        raise ValueError(f"{path} is no export of a cluster: {error}") from None
    if data.count(b"\n") != len(snapshot.entries) + 2 or not data.endswith(b"\n"):
        raise ValueError(f"{path} is damaged: there are lines after its end")
    return Known(snapshot, is_last=True, source=os.fspath(path))
