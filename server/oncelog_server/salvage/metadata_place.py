"""The check that the metadata of a data directory is in the directory itself."""

from __future__ import annotations

from pathlib import Path

from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.data_directory.ownership import Owner, owner_of
from oncelog_server.storage.layout import OTHER_BROKERS


def check_metadata_is_here(path: Path, with_etcd: str) -> None:
    """Raise ValueError if the metadata is in etcd, or in the directory of the first broker of this
    machine. A store in the directory is then out of date.

    `with_etcd` is the clause about the command to use for metadata in etcd. Raises OSError, and
    ValueError if the mark of the directory is damaged.
    """
    if DataDirectory(str(path)).cluster_revision() is None:
        return
    first = path.parent.parent
    if path.parent.name == OTHER_BROKERS and owner_of(first) in (Owner.ONCELOG, Owner.LOST):
        raise ValueError(
            f"the metadata of {path} is in {first}, the data directory of the first broker of this "
            f"machine: give --data {first}"
        )
    raise ValueError(f"the metadata of {path} is in etcd: {with_etcd}")
