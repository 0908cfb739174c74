"""Makes the changes of an import on disk. An import may be interrupted after any step, and run
again.

Until the folder of Kafka's metadata gets another name, that metadata is the source of a repeated
import. So the folder is renamed last, just before the mark of the import is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from oncelog_server.data_directory.ownership import KAFKA_BOOTSTRAP
from oncelog_server.metadata.founding import random_uuid
from oncelog_server.migration import markers
from oncelog_server.migration.copies import copy_all
from oncelog_server.migration.new_metadata import write_new_metadata
from oncelog_server.migration.planning.import_plan import ImportPlan
from oncelog_server.migration.planning.metadata_log import METADATA_LOG
from oncelog_server.salvage.changes import (
    BEFORE,
    sync_directory,
)
from oncelog_server.storage.layout import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_directory,
    stray_directory,
)

# The files of a data directory that both brokers write in the same format.
CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
# The order matters: the folder of the metadata comes last.
_KAFKAS_OWN: Final = (KAFKA_BOOTSTRAP, METADATA_LOG)


class ImportChanges:
    """Imports `source` into `target`, which may be the same directory. `about_to` gets a
    description of each change before the change is made."""

    def __init__(
        self, source: Path, target: Path, about_to: Callable[[str], None] = lambda what: None
    ) -> None:
        self._source = source
        self._target = target
        self._about_to = about_to

    def make(self, plan: ImportPlan) -> None:
        """Make the changes of `plan`. Raises NoRoom, OSError and StorageError."""
        self._about_to("begin")
        markers.begin(self._target, self._source)
        if self._target != self._source:
            strays = set(plan.strays)
            names = [name for name in sorted(os.listdir(self._source)) if name not in strays]
            folders = [name for name in names if parse_partition_directory(name) is not None]
            folders = [name for name in folders if name != METADATA_LOG]
            copy_all(self._source, self._target, [*folders, *CHECKPOINTS], self._about_to)
        self._write_metadata(plan)
        self._forget_clean_stop()
        if self._target == self._source:
            self._set_aside(plan)
        self.finish()

    def finish(self) -> None:
        """Remove the mark of the import. Raises OSError."""
        self._about_to("end")
        markers.end(self._target)

    def _write_metadata(self, plan: ImportPlan) -> None:
        write_new_metadata(self._target, plan.snapshot, plan.meta, self._about_to)

    def _forget_clean_stop(self) -> None:
        """Remove the mark of Kafka's clean stop, so that the first start checks the end of each
        log."""
        self._about_to(f"remove {CLEAN_SHUTDOWN}")
        (self._target / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        sync_directory(self._target)

    def _set_aside(self, plan: ImportPlan) -> None:
        """Rename the folders that no topic has, and the files that only Kafka reads."""
        for folder in plan.strays:
            partition = parse_partition_directory(folder)
            assert partition is not None
            self._about_to(f"rename {folder}")
            stray = stray_directory(partition.topic, partition.partition, random_uuid())
            os.rename(self._target / folder, self._target / stray)
        for name in _KAFKAS_OWN:
            if (self._target / name).exists():
                self._about_to(f"rename {name}")
                os.rename(self._target / name, self._free_name(name))
                sync_directory(self._target)

    def _free_name(self, name: str) -> Path:
        number = 1
        while (path := self._target / f"{name}{BEFORE}{number}").exists():
            number += 1
        return path
