"""A client. It works until its quota is done, and starts again after a kill."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oncelog_client import KafkaError

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld
    from tests.simulation.process import Process

# Pause before a client repeats a failed call.
PAUSE_S: Final = 0.03


class Client(ABC):
    """A client. It has done `done` of `quota` operations. These two numbers survive the death of
    a process of the client."""

    kind: ClassVar[str]

    def __init__(self, world: BaseWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.rng: Random = world.rng(name)
        self.quota = world.options.transactions
        self.done = 0
        self.ended = False
        self.process: Process | None = None

    @property
    def me(self) -> Process:
        assert self.process is not None
        return self.process

    @property
    def is_done(self) -> bool:
        return self.has_done_enough

    @property
    def has_done_enough(self) -> bool:
        return self.done >= self.quota or self.world.is_late

    async def live(self) -> None:
        """Start this client's simulated processes one after another. This task itself runs outside
        of them, so no kill ends it."""
        await asyncio.sleep(self.rng.random() * 0.05)
        while not self.ended:
            self.process = self.world.new_process(self.name)
            if await self.process.run(self.run()):
                self.ended = True
                await self.world.check_left(self.process)
                self.process.die()
            else:
                self.world.sometimes.met("client killed")
                await asyncio.sleep(self.rng.random() * 0.3)

    async def run(self) -> None:
        """Run one process. After an error of the client library, `work` starts again. Any other
        exception is a defect."""
        while not self.is_done:
            try:
                await self.work()
            except KafkaError as error:
                self.world.sometimes.met(f"client met {error.code.name}")
                await asyncio.sleep(PAUSE_S)

    @abstractmethod
    async def work(self) -> None:
        """Work until the quota is done. Raises KafkaError if an error needs another call of
        `work`."""

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of every client. The timeouts are short, because a simulated world
        ends after some seconds."""
        return {
            "client_id": self.name,
            "request_timeout_ms": 800,
            "retry_backoff_ms": 10,
            "retry_backoff_max_ms": 100,
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 100,
            "socket_connection_setup_timeout_ms": 500,
            "connections_max_idle_ms": 9_000,
            "metadata_max_age_ms": 60_000,
            **more,
        }

    def producer_settings(self, **more: Any) -> dict[str, Any]:
        options = self.world.options
        return self.settings(
            max_block_ms=options.max_block_ms,
            delivery_timeout_ms=options.delivery_timeout_ms,
            **more,
        )

    async def idle(self, most_ms: int) -> None:
        """Sometimes pause for at most `most_ms`, if the world has the usual pace."""
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random() * most_ms / 1000 * self.world.options.pace)
