"""What all simulated worlds share: the loop, the processes, the clients and their history."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

from oncelog_client import TopicPartition
from tests.simulation.checking.promises import Promises
from tests.simulation.clock import EPOCH_MS
from tests.simulation.log_capture import LogCapture
from tests.simulation.loop import SimLoop
from tests.simulation.net import SimNet
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.recorder import Recorder
from tests.simulation.sometimes import Sometimes
from tests.simulation.workloads.client import Client
from tests.simulation.workloads.copy import GROUP as COPIERS
from tests.simulation.workloads.group_commit import GroupCommit
from tests.simulation.workloads.pipelined import Hijack
from tests.simulation.workloads.plain import Feeder
from tests.simulation.workloads.table import Ledger
from tests.simulation.workloads.two_phase import TwoPhase


class BaseWorld:
    """A world without brokers. `bootstrap`: the `bootstrap_servers` of the clients."""

    bootstrap: str

    def __init__(self, seed: int, options: Options, loop: SimLoop, capture: LogCapture) -> None:
        self.seed = seed
        self.options = options
        self.loop = loop
        self.capture = capture
        self.context = Context()
        self.recorder = Recorder(loop)
        self.sometimes = Sometimes()
        self.inflicted: Counter[str] = Counter()
        self.violations: list[str] = []
        self.promises = Promises()
        self.amounts: dict[int, int] = {}
        self.ledger = Ledger()
        # For each copied value, the partition and offset of its source.
        self.copied_from: dict[int, tuple[int, int]] = {}
        # Names of topics that were deleted and created again.
        self.recreated: set[str] = set()
        self.clients: list[Client] = []
        self.is_late = False
        self.healing = asyncio.Event()
        self.is_copied = False
        self._processes: list[Process] = []
        self._work: list[asyncio.Task[Any]] = []
        self.net = loop.network = SimNet(loop, self.rng("net"))
        self._make_weather()

    def _make_weather(self) -> None:
        options, weather = self.options, self.net.weather
        weather.latency_us = options.latency_us
        weather.segmentation = options.segmentation
        weather.coalescing = options.coalescing
        weather.clogging = options.clogging
        self.net.small_window = options.small_window

    # Methods that clients, faults and checks use.

    def rng(self, name: str) -> Random:
        """Return a generator for one purpose. Its draws do not change those of other purposes."""
        return Random(f"{self.seed}/{name}")

    def new_process(self, name: str) -> Process:
        process = Process(name, len(self._processes) + 1)
        self._processes.append(process)
        return process

    def bury(self) -> None:
        """Kill all remaining processes, and ignore their exceptions."""
        for process in self._processes:
            process.bury()

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + self.loop.now_us // 1000

    @property
    def shared_partitions(self) -> list[TopicPartition]:
        return [TopicPartition("a", index) for index in range(self.options.topic_partitions)]

    @property
    def input_partitions(self) -> list[TopicPartition]:
        return [TopicPartition("in", index) for index in range(self.options.topic_partitions)]

    @property
    def output_partitions(self) -> list[TopicPartition]:
        return [TopicPartition("out", index) for index in range(self.options.topic_partitions)]

    @property
    def transactional_ids(self) -> list[str]:
        return [
            client.transactional_id
            for client in self.clients
            if hasattr(client, "transactional_id") and not isinstance(client, Hijack | TwoPhase)
        ]

    @property
    def groups(self) -> list[str]:
        """Return the consumer groups with transactions or offsets that the checks read."""
        committers = [client.name for client in self.clients if isinstance(client, GroupCommit)]
        return [COPIERS, *committers]

    @property
    def is_healed(self) -> bool:
        return self.healing.is_set()

    @property
    def is_fed(self) -> bool:
        return all(client.ended for client in self.clients if isinstance(client, Feeder))

    async def check_left(self, process: Process) -> None:
        """Check that a cleanly ended process has left no task and no timer (I19)."""
        # Cancelled tasks need a turn of the loop, and files may still be closing.
        await asyncio.sleep(1.0)
        if process.is_dead:
            return
        tasks = [str(task.get_coro()) for task in process.tasks if not task.done()]
        if tasks:
            self.violate(f"{process.name} leaves tasks: {tasks}")
        timers = self.loop.timers_of(process)
        if timers:
            self.violate(f"{process.name} leaves timers: {timers}")

    def violate(self, what: str) -> None:
        self.violations.append(f"{self.loop.now_us / 1e6:.4f} s: {what}")

    def after(self, delay_us: int, then: Callable[[], None]) -> None:
        self.loop.call_later(delay_us / 1e6, then, context=self.context)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        self._work.append(self.loop.create_task(work, context=self.context.copy()))

    def start_clients(self) -> list[asyncio.Task[None]]:
        return [
            self.loop.create_task(client.live(), context=self.context.copy())
            for client in self.clients
        ]

    async def until_clients_end(self, lives: list[asyncio.Task[None]], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*lives)
        except TimeoutError:
            unfinished = [client.name for client in self.clients if not client.ended]
            self.violate(f"clients do not end: {', '.join(unfinished)}")

    def resume_clients(self) -> None:
        for client in self.clients:
            if client.process is not None and client.process.held:
                self.loop.resume(client.process)
            elif client.process is not None and not client.process.is_dead:
                client.process.state = 0

    def raise_failures(self) -> None:
        """Raise the exception of a background task that has failed."""
        for task in self._work:
            if task.done() and (error := task.exception()) is not None:
                raise error
