"""The operating system's files with fail points at every write to a log."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from oncelog_server.faults.full_disk import FullDisk
from oncelog_server.faults.points import Step, WriteMoment, point_name
from oncelog_server.faults.steps import steps_of
from oncelog_server.faults.trap import Trap
from oncelog_server.operating_system.descriptors import DESCRIPTOR_LIMIT
from oncelog_server.operating_system.os_files import CallOnLoop, OsFile, OsFiles
from oncelog_server.storage.files import Buffer, Done, File, StorageError

_LOG_SUFFIX: Final = ".log"


class WatchedFile(OsFile):
    """A file. `unsynced`: the meaning (`Step`) of each batch that was written since the last
    fsync."""

    __slots__ = ("_full_disk", "_topic", "_trap", "unsynced")

    def watch(self, trap: Trap | None, full: FullDisk | None) -> None:
        self._full_disk = full
        directory, name = os.path.split(self.path)
        self._topic = os.path.basename(directory).rpartition("-")[0]
        self._trap = trap if name.endswith(_LOG_SUFFIX) else None
        self.unsynced: list[Step] = []

    def append(self, *buffers: Buffer) -> None:
        if self._full_disk is not None:
            self._full_disk.check("append", self.path, sum(map(len, buffers)))
        trap = self._trap
        if trap is None:
            super().append(*buffers)
            return
        data = b"".join(buffers)
        steps = steps_of(self._topic, data)
        for step in steps:
            trap.reached(point_name(WriteMoment.BEFORE, step))
            if trap.is_due(point_name(WriteMoment.TORN, step)):
                super().append(data[: len(data) // 2])
            trap.reached(point_name(WriteMoment.TORN, step))
        super().append(data)
        self.unsynced += steps
        for step in steps:
            trap.reached(point_name(WriteMoment.AFTER, step))


class WatchedFiles(OsFiles):
    """Files with faults.

    `trap` counts every fail point that a write reaches. Every fsync takes `sync_delay_s` longer.
    `full` decides for which files the disk is full.
    """

    file_class = WatchedFile

    def __init__(
        self,
        root: str,
        *,
        executor: Executor,
        call_on_loop: CallOnLoop,
        descriptor_limit: int = DESCRIPTOR_LIMIT,
        trap: Trap | None,
        sync_delay_s: float,
        full: FullDisk | None = None,
    ) -> None:
        super().__init__(
            root, executor=executor, call_on_loop=call_on_loop, descriptor_limit=descriptor_limit
        )
        self._trap = trap
        self._sync_delay_s = sync_delay_s
        self._full_disk = full

    def open(self, path: str, *, create: bool = False) -> OsFile:
        if self._full_disk is not None and create and not self.exists(path):
            self._full_disk.check("create", path)
        file = super().open(path, create=create)
        assert isinstance(file, WatchedFile)
        file.watch(self._trap, self._full_disk)
        return file

    def make_directory(self, path: str) -> None:
        if self._full_disk is not None and not self.exists(path):
            self._full_disk.check("make directory", path)
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        if self._full_disk is not None:
            self._full_disk.check("rename", target)
        super().rename(source, target)

    def replace(self, path: str, data: bytes) -> None:
        if self._full_disk is not None:
            self._full_disk.check("replace", path, len(data))
        super().replace(path, data)

    def sync(self, files: Sequence[File], done: Done) -> None:
        watched = [file for file in files if isinstance(file, WatchedFile)]
        steps = [step for file in watched for step in file.unsynced]
        for file in watched:
            file.unsynced = []

        def synced(error: StorageError | None) -> None:
            if error is None and self._trap is not None:
                for step in steps:
                    self._trap.reached(point_name(WriteMoment.SYNCED, step))
            done(error)

        if not self._sync_delay_s:
            super().sync(files, synced)
            return

        def slowly() -> None:
            time.sleep(self._sync_delay_s)
            self._call_on_loop(lambda: OsFiles.sync(self, files, synced))

        self._executor.submit(slowly)
