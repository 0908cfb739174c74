"""Writes the metadata of a directory that has none: store, text copy and meta.properties."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from oncelog_server.cluster.store import Snapshot
from oncelog_server.log.checkpoints import MetaProperties, encode_meta_properties
from oncelog_server.metadata.database import write_store
from oncelog_server.metadata.text_copy import encode_copy
from oncelog_server.salvage.changes import NEW, STORE_SUFFIXES, replace_file, sync_directory
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_COPY, METADATA_FILE


def write_new_metadata(
    target: Path, snapshot: Snapshot, meta: MetaProperties, about_to: Callable[[str], None]
) -> None:
    """Write the files, durably. The files of an interrupted call are replaced. `about_to` gets a
    description of each change before the change is made. Raises OSError."""
    new = target / (METADATA_FILE + NEW)
    about_to(f"write {METADATA_FILE}")
    for name in (new.name, METADATA_FILE):
        for suffix in STORE_SUFFIXES:
            (target / (name + suffix)).unlink(missing_ok=True)
    write_store(new, snapshot)
    about_to(f"rename {new.name} {METADATA_FILE}")
    os.rename(new, target / METADATA_FILE)
    sync_directory(target)
    about_to(f"write {METADATA_COPY}")
    replace_file(target / METADATA_COPY, encode_copy(snapshot.revision, snapshot.entries))
    about_to(f"write {META_PROPERTIES}")
    replace_file(target / META_PROPERTIES, encode_meta_properties(meta))
