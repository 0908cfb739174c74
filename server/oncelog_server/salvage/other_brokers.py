"""The directories of the other brokers of a machine (`serve --brokers`), inside that of the first
broker."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.data_directory.ownership import Owner, owner_of
from oncelog_server.salvage.planning.machine import OtherBroker
from oncelog_server.salvage.sources import meta_properties
from oncelog_server.salvage.stopped_brokers import check_stopped
from oncelog_server.salvage.surveys import folder_facts
from oncelog_server.storage.layout import METADATA_FILE, OTHER_BROKERS


def other_directories(path: Path) -> dict[int, Path]:
    """Return the directories of the other brokers by their number, 2 for the second broker. A
    directory without files does not count. Raises OSError."""
    root = path / OTHER_BROKERS
    if not root.is_dir():
        return {}
    found = {
        int(folder.name): folder
        for folder in root.iterdir()
        if folder.name.isascii() and folder.name.isdecimal() and folder.is_dir()
    }
    return {n: found[n] for n in sorted(found) if owner_of(found[n]) is not Owner.EMPTY}


def check_others(path: Path) -> None:
    """Raise ValueError if the directory of another broker belongs to another program, or has
    metadata of its own, and DirectoryInUse if a broker uses it. Raises OSError."""
    for folder in other_directories(path).values():
        owner = owner_of(folder)
        if owner in (Owner.FOREIGN, Owner.MIGRATING):
            raise ValueError(f"{folder} is no data directory of a broker: move it away")
        if (folder / METADATA_FILE).exists():
            raise ValueError(
                f"{folder} has metadata of its own ({METADATA_FILE}), and those of a broker of "
                f"this machine are in {path}: move it away"
            )
        check_stopped(folder)


def survey_others(path: Path, notes: list[str]) -> tuple[OtherBroker, ...]:
    """Return the facts about the directories. Every batch is read. `notes` gets sentences for the
    operator.

    Raises ValueError if a file is damaged that shows what a broker has seen, OSError and
    StorageError.
    """
    found = []
    for number, folder in other_directories(path).items():
        prefix = f"{OTHER_BROKERS}/{number}/"
        own: list[str] = []
        directory = DataDirectory(str(folder))
        seen = directory.cluster_revision()
        facts = tuple(
            msgspec.structs.replace(facts, folder=prefix + facts.folder)
            for facts in folder_facts(folder)
        )
        found.append(
            OtherBroker(
                number,
                meta_properties(folder, own),
                0 if seen is None else seen.revision,
                directory.clean_stop_epoch(),
                facts,
            )
        )
        notes += [prefix + note for note in own]
    if found:
        # The plan relies on what was read, even after a power loss.
        os.sync()
    return tuple(found)
