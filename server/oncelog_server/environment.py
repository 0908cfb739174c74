"""The broker's environment: clocks, disk, metadata store, randomness.

The simulator runs the same broker in its own environment.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from oncelog_server.clock import Clock, SystemClock
from oncelog_server.cluster.store import MetadataStore
from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.metadata.founding import random_uuid
from oncelog_server.metadata.sqlite_store import SqliteStore
from oncelog_server.network.listener import Requests
from oncelog_server.operating_system.descriptors import affordable_descriptors
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.settings.model import Settings
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    META_PROPERTIES,
    METADATA_COPY,
    METADATA_FILE,
    METADATA_RESERVE,
    METADATA_SOCKET,
)
from oncelog_server.timers import Timers

if TYPE_CHECKING:
    from oncelog_server.cleaning.work import CleaningWork, PassListener
    from oncelog_server.faults.faults import Faults
    from oncelog_server.log.cleaner.job import CleaningJob
    from oncelog_server.metadata.exit_monitor import ExitMonitor

# Linux has a new random id after each boot.
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# Threads for three fsyncs, an unlink and two prefetches. Everything else runs on the loop.
DISK_THREADS: Final = 6
# Timeout of the look-up of the computer's own name, which delays the start.
LOOK_UP_S: Final = 0.25
# Long work runs in slices, and the clock limits each slice. This number limits a slice only if the
# clock stands still, as in the simulator.
STEPS_PER_SLICE: Final = 2_000


class Environment(Protocol):
    """The environment of a broker. It is created on the broker's loop, and the broker closes it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def directory(self) -> DataDirectory: ...

    @property
    def files(self) -> Files:
        """The files below the data directory."""
        ...

    @property
    def random(self) -> random.Random: ...

    @property
    def steps_per_slice(self) -> int:
        """Maximum number of steps of long work in one turn of the loop."""
        ...

    def new_uuid(self) -> bytes:
        """Return 16 random bytes."""
        ...

    def token_bytes(self, count: int) -> bytes:
        """Return random bytes for secrets."""
        ...

    def boot(self) -> str:
        """Return a text that changes whenever unsynced data may be lost: with each boot of the
        computer, and with the device of the data directory. Return "" if it is unknown.
        """
        ...

    async def open_store(self, settings: Settings) -> MetadataStore:
        """Open the metadata store. Raises OSError. Raises ValueError if a setting of the store
        cannot be used."""
        ...

    def exit_monitor(self, settings: Settings) -> ExitMonitor | None:
        """Return the exit monitor, which ends the lease of the broker when its process has died.
        Return None if the metadata store does so, or if a setting switches the monitor off."""
        ...

    async def host_name(self) -> str:
        """Return the name to advertise for a listener that is bound to every address."""
        ...

    def timers(self, loop: asyncio.AbstractEventLoop) -> Timers:
        """Return the timers of the broker's loop. They obey `clock`."""
        ...

    def watched(self, requests: Requests, topic_name: Callable[[bytes], str | None]) -> Requests:
        """Return `requests`, or the wrapper that a test puts around it. `topic_name` returns the
        name of a topic id."""
        ...

    def clean(self, job: CleaningJob, listener: PassListener) -> CleaningWork:
        """Begin a pass of the log cleaner."""
        ...

    def close(self) -> None: ...


class OsEnvironment:
    """The environment of the operating system. `faults` are the failures of disk and process that a
    test injects."""

    def __init__(self, data_directory: str, faults: Faults | None = None) -> None:
        self.clock: Clock = SystemClock() if faults is None else faults.clock
        self.random = random.Random()
        self.directory = DataDirectory(data_directory)
        self._faults = faults
        self._executor = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        new_files = OsFiles if faults is None else faults.files
        self.files = new_files(
            str(self.directory.path),
            executor=self._executor,
            call_on_loop=asyncio.get_running_loop().call_soon_threadsafe,
            descriptor_limit=affordable_descriptors(),
        )

    @property
    def steps_per_slice(self) -> int:
        return STEPS_PER_SLICE

    def new_uuid(self) -> bytes:
        return random_uuid()

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def boot(self) -> str:
        try:
            return f"{BOOT_ID.read_text().strip()} {self.directory.path.stat().st_dev}"
        except OSError:
            return ""

    async def open_store(self, settings: Settings) -> MetadataStore:
        if settings.oncelog_etcd_endpoints:
            from oncelog_server.etcd.opening import open_etcd

            return open_etcd(settings)
        if settings.first_broker is not None:
            from oncelog_server.shared_store.client import SocketStore

            return SocketStore(Path(settings.first_broker), METADATA_SOCKET)
        path = self.directory.path
        store = await SqliteStore.open(
            path / METADATA_FILE,
            may_be_new=not (path / META_PROPERTIES).exists(),
            copy=path / METADATA_COPY,
            reserve=path / METADATA_RESERVE,
        )
        if settings.oncelog_brokers == 1:
            return store
        from oncelog_server.shared_store.server import SharedStore

        shared = SharedStore(store, path, METADATA_SOCKET)
        await shared.open()
        return shared

    def exit_monitor(self, settings: Settings) -> ExitMonitor | None:
        if not settings.oncelog_etcd_endpoints or not settings.oncelog_exit_monitor_enable:
            return None
        from oncelog_server.exit_monitor.process import ExitMonitorProcess, monitored

        return ExitMonitorProcess(monitored(settings))

    async def host_name(self) -> str:
        """Return the computer's name, as Kafka does.

        Return "localhost" if the look-up of the name fails or is slow, as often on a laptop.
        """
        name = socket.gethostname()
        try:
            async with asyncio.timeout(LOOK_UP_S):
                # The name is passed as bytes: a str would load the codec of international names,
                # which takes 2 ms.
                await asyncio.get_running_loop().getaddrinfo(name.encode(), None)
        except (OSError, TimeoutError):
            return "localhost"
        return name

    def timers(self, loop: asyncio.AbstractEventLoop) -> Timers:
        return LoopTimers(loop) if self._faults is None else self._faults.timers(loop)

    def watched(self, requests: Requests, topic_name: Callable[[bytes], str | None]) -> Requests:
        return requests if self._faults is None else self._faults.requests(requests, topic_name)

    def clean(self, job: CleaningJob, listener: PassListener) -> CleaningWork:
        from oncelog_server.cleaning.processes import ProcessWork

        return ProcessWork(asyncio.get_running_loop(), str(self.directory.path), job, listener)

    def close(self) -> None:
        self.files.stop_removals()
        self._executor.shutdown(wait=True)
        self.files.close()
