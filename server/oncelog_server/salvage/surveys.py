"""The facts about the data directory of a broker, for a recovery of its cluster, and the file that
carries them to another computer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.data_directory.ownership import Owner, owner_of
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.salvage.planning.directories import SurveyedDirectory
from oncelog_server.salvage.planning.evidence import FolderFacts, facts_of_all
from oncelog_server.salvage.stopped_brokers import check_stopped
from oncelog_server.storage.layout import META_PROPERTIES

TITLE: Final = "oncelog-survey"
VERSION: Final = 2


class _Survey(msgspec.Struct, frozen=True):
    title: str
    version: int
    directory: SurveyedDirectory


def survey(path: Path) -> SurveyedDirectory:
    """Return the facts about the directory of a stopped broker of a cluster. Every batch is read.

    Raises ValueError if it is no such directory, DirectoryInUse if the broker runs, NeedsRecovery
    if meta.properties is damaged, OSError and StorageError.
    """
    if owner_of(path) is not Owner.ONCELOG:
        raise ValueError(f"{path} is no data directory of a broker")
    check_stopped(path)
    directory = DataDirectory(str(path))
    seen = directory.cluster_revision()
    if seen is None:
        raise ValueError(
            f"the metadata of {path} is in the directory: `oncelog storage recover` rebuilds it"
        )
    meta = directory.meta_properties()
    if meta is None:
        raise ValueError(f"{path} has no {META_PROPERTIES}, so its broker and cluster are unknown")
    facts = folder_facts(path)
    # The plan relies on what was read, even after a power loss.
    os.sync()
    return SurveyedDirectory(
        meta.node_id,
        meta.cluster_id,
        meta.directory_id,
        seen.revision,
        directory.clean_stop_epoch(),
        facts,
        seen.restored_at,
    )


def folder_facts(path: Path) -> tuple[FolderFacts, ...]:
    """Return the facts about all folders of partitions in a data directory. Every batch is read.
    Raises OSError and StorageError."""
    folders = sorted(folder.name for folder in path.iterdir() if folder.is_dir())
    return tuple(facts_of_all(ReadOnlyFiles(), str(path), folders))


def encode_survey(directory: SurveyedDirectory) -> bytes:
    return msgspec.json.encode(_Survey(TITLE, VERSION, directory)) + b"\n"


def read_survey(path: Path) -> SurveyedDirectory:
    """Return the facts in a file. Raises OSError, and ValueError if it has none."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Survey)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is no survey of a data directory: {error}") from None
    if (found.title, found.version) != (TITLE, VERSION):
        raise ValueError(f"{path} is a survey of another version of oncelog")
    return found.directory
