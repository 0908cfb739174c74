"""The operating system's files with fail points at every write to a log."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final, Protocol

from oncelog_server.faults.full_disk import FullDisk
from oncelog_server.faults.points import Step, WriteMoment, point_name
from oncelog_server.faults.steps import steps_of
from oncelog_server.faults.trap import Trap
from oncelog_server.operating_system.descriptors import DESCRIPTOR_LIMIT
from oncelog_server.operating_system.os_files import CallOnLoop, OsFile, OsFiles
from oncelog_server.storage.files import Buffer, Done, File, StorageError

_LOG_SUFFIX: Final = ".log"


class DiskFaults(Protocol):
    """The faults in effect. They may change at any time."""

    trap: Trap | None
    sync_delay_ms: int
    full_disk: FullDisk


class WatchedFile(OsFile):
    """A file. `unsynced`: the meaning (`Step`) of each batch that was written since the last fsync,
    while a trap was set."""

    __slots__ = ("_faults", "_is_log", "_topic", "unsynced")

    def watch(self, faults: DiskFaults) -> None:
        self._faults = faults
        directory, name = os.path.split(self.path)
        self._topic = os.path.basename(directory).rpartition("-")[0]
        self._is_log = name.endswith(_LOG_SUFFIX)
        self.unsynced: list[Step] = []

    def append(self, buffer: Buffer) -> None:
        self._faults.full_disk.check("append", self.path, len(buffer))
        trap = self._faults.trap
        if trap is None or not self._is_log:
            super().append(buffer)
            return
        data = bytes(buffer)
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
    """Files with faults: fail points at each write, an fsync that takes longer, and a full disk."""

    file_class = WatchedFile

    def __init__(
        self,
        root: str,
        *,
        executor: Executor,
        call_on_loop: CallOnLoop,
        descriptor_limit: int = DESCRIPTOR_LIMIT,
        faults: DiskFaults,
    ) -> None:
        super().__init__(
            root, executor=executor, call_on_loop=call_on_loop, descriptor_limit=descriptor_limit
        )
        self._faults = faults

    def open(self, path: str, *, create: bool = False) -> OsFile:
        if create and not self.exists(path):
            self._faults.full_disk.check("create", path)
        file = super().open(path, create=create)
        assert isinstance(file, WatchedFile)
        file.watch(self._faults)
        return file

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            self._faults.full_disk.check("make directory", path)
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._faults.full_disk.check("rename", target)
        super().rename(source, target)

    def replace(self, path: str, data: bytes) -> None:
        self._faults.full_disk.check("replace", path, len(data))
        super().replace(path, data)

    def sync(self, files: Sequence[File], done: Done) -> None:
        watched = [file for file in files if isinstance(file, WatchedFile)]
        steps = [step for file in watched for step in file.unsynced]
        for file in watched:
            file.unsynced = []

        def synced(error: StorageError | None) -> None:
            trap = self._faults.trap
            if error is None and trap is not None:
                for step in steps:
                    trap.reached(point_name(WriteMoment.SYNCED, step))
            done(error)

        delay_s = self._faults.sync_delay_ms / 1000
        if not delay_s:
            super().sync(files, synced)
            return

        def slowly() -> None:
            time.sleep(delay_s)
            self._call_on_loop(lambda: OsFiles.sync(self, files, synced))

        self._executor.submit(slowly)
