"""The computer on which a simulated broker runs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from random import Random

from oncelog_server.cleaning.slices import SlicedWork
from oncelog_server.cleaning.work import CleaningWork, PassListener
from oncelog_server.cluster.store import MetadataStore
from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.log.cleaner.job import CleaningJob
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.metadata.exit_monitor import ExitMonitor
from oncelog_server.network.listener import Requests
from oncelog_server.settings.model import Settings
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import CLEAN_SHUTDOWN
from oncelog_server.timers import Timers
from tests.simulation.clock import SimClock
from tests.simulation.files import SimFiles

# Steps of the log cleaner in one turn of the event loop (a slice). The number is small, so that
# requests come between the slices even in a simulation with few partitions. Time stands still
# within a slice.
STEPS_PER_SLICE = 3


class SimDirectory(DataDirectory):
    """The data directory on a simulated disk. No other process can use it, so it needs no lock."""

    def __init__(self, files: SimFiles) -> None:
        super().__init__("/simulated")
        self._files = files

    def lock(self) -> None:
        pass

    def release(self) -> None:
        pass

    def take_clean_mark(self) -> None:
        self._files.unlink_now(CLEAN_SHUTDOWN)

    def _read(self, name: str) -> bytes | None:
        if not self._files.exists(name):
            return None
        try:
            file = self._files.open(name)
            return file.read(0, file.size)
        except StorageError as error:
            raise OSError(str(error)) from None


class SimMachine:
    """The computer for one start of a broker. Its disk and clock outlive that start."""

    def __init__(
        self,
        files: SimFiles,
        open_store: Callable[[Settings], MetadataStore],
        clock: SimClock,
        rng: Random,
        host: str = "broker",
        around: Callable[[Requests], Requests] | None = None,
        exit_monitor: ExitMonitor | None = None,
    ) -> None:
        """`open_store` opens the metadata store. `around` returns what serves requests in place of
        the broker's dispatch."""
        self._around = around
        self._exit_monitor = exit_monitor
        self.clock = clock
        self.files = files
        self.directory = SimDirectory(files)
        self.random = rng
        self._open_store = open_store
        self._host = host

    @property
    def steps_per_slice(self) -> int:
        return STEPS_PER_SLICE

    def new_uuid(self) -> bytes:
        return uuid.UUID(int=self.random.getrandbits(128), version=4).bytes

    def token_bytes(self, count: int) -> bytes:
        return self.random.randbytes(count)

    def boot(self) -> str:
        return f"boot {self.files.disk.power_losses}"

    async def open_store(self, settings: Settings) -> MetadataStore:
        return self._open_store(settings)

    def exit_monitor(self, settings: Settings) -> ExitMonitor | None:
        return self._exit_monitor

    async def host_name(self) -> str:
        return self._host

    def timers(self, loop: asyncio.AbstractEventLoop) -> Timers:
        return LoopTimers(loop)

    def watched(self, requests: Requests, topic_name: Callable[[bytes], str | None]) -> Requests:
        return requests if self._around is None else self._around(requests)

    def clean(self, job: CleaningJob, listener: PassListener) -> CleaningWork:
        return SlicedWork(self.files, LoopTimers(asyncio.get_running_loop()), job, listener)

    def close(self) -> None:
        pass
