"""Starts, kills, pauses and restarts a real broker on a simulated disk."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any

from oncelog_server.broker import Broker
from oncelog_server.cluster.store import MetadataStore
from oncelog_server.config import Settings
from oncelog_server.metadata.exit_monitor import ExitMonitor
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.files import SimFiles
from tests.simulation.loop import SimLoop
from tests.simulation.machine import SimMachine
from tests.simulation.process import DEAD, PAUSED, Process


class BrokerNode:
    """One broker over all its starts. `open_store` opens its metadata store at a start.
    `new_process(name)` makes the process of one start. `settings` may change between two starts.
    `host`: the name of the broker's computer and of its processes."""

    def __init__(
        self,
        loop: SimLoop,
        rng: Random,
        settings: Settings,
        new_process: Callable[[str], Process],
        open_store: Callable[[Settings], MetadataStore],
        host: str = "broker",
    ) -> None:
        self.host = host
        self._open_store = open_store
        self._loop = loop
        self._rng = rng
        self.settings = settings
        self._new_process = new_process
        self.disk = SimDisk(Random(rng.getrandbits(64)), loop.mix)
        self.clock = SimClock(loop)
        self.process: Process | None = None
        self._broker: Broker | None = None
        self.starts = 0
        # The number of disk failures before the last start. Failures of a full disk do not count.
        self.failures_at_start = 0
        # Called with the broker when it is killed.
        self.on_death: Callable[[Broker], None] = lambda broker: None
        # If set, this function gets the broker's dispatch and returns the object that serves
        # requests in its place.
        self.around: Callable[[Any], Any] | None = None
        # Called with the directories of the synced files, after the broker knows of the sync.
        self.on_sync: Callable[[Broker, Collection[str]], None] = lambda broker, directories: None

    @property
    def is_up(self) -> bool:
        """Return True if the broker was started and is not dead. It may be paused."""
        return self._broker is not None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the broker is not up"
        return self._broker

    async def start(self) -> bool:
        """Start the broker. Return False if the process was killed during the start. Raises the
        broker's error if the broker refuses to start."""
        process = self.process = self._new_process(self.host)
        process.on_death.append(self._gone)
        self.starts += 1
        self.failures_at_start = self.disk.other_failures
        files = SimFiles(self.disk, process, self._loop, self._synced)
        rng = Random(self._rng.getrandbits(64))
        monitor = self._new_exit_monitor(process)
        machine = SimMachine(
            files, self._open_store, self.clock, rng, self.host, self.around, monitor
        )
        made: list[Broker] = []

        async def run() -> None:
            made.append(Broker(self.settings, machine))
            await made[0].start()

        try:
            started = await process.run(run())
        except BaseException:
            process.die()
            raise
        if started and process.state != DEAD:
            self._broker = made[0]
        return self.is_up

    def _new_exit_monitor(self, process: Process) -> ExitMonitor | None:
        """Return the exit monitor of a process, None without one."""
        return None

    def watch_loads(self, loaded: Callable[[], None]) -> None:
        """Call `loaded` each time that this broker has loaded a coordinator shard."""
        for runtime in (self.broker.transactions.runtime, self.broker.groups.runtime):
            runtime._on_loaded = _then(runtime._on_loaded, loaded)

    async def stop(self) -> bool:
        """Stop the broker cleanly. Return False if the process was killed during the stop."""
        assert self.process is not None
        return await self.process.run(self.broker.stop())

    def _gone(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            self.on_death(broker)

    def _synced(self, directories: Collection[str]) -> None:
        if self._broker is not None:
            self.on_sync(self._broker, directories)

    def kill(self) -> None:
        if self.process is not None:
            self.process.die()

    def pause(self) -> bool:
        process = self.process
        if process is None or process.state == DEAD:
            return False
        process.state = PAUSED
        return True

    def resume(self) -> None:
        if self.process is not None and self.process.state == PAUSED:
            self._loop.resume(self.process)


def _then(on_loaded: Callable[[int, Any], None], loaded: Callable[[], None]) -> Any:
    def both(index: int, shard: Any) -> None:
        on_loaded(index, shard)
        loaded()

    return both
