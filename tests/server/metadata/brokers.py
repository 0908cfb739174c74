"""Brokers of one cluster for tests: their metadata on one store that outlives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from oncelog_server.cluster.store import MetadataStore
from oncelog_server.dynamic_settings import DynamicSettings
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.membership import DirectoryFacts
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings
from tests.server.metadata.memory_store import MemoryStore

DEADLINE_S = 30
SESSION_MS = 9_000


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


class Brokers:
    """The metadata of several brokers, as in processes of their own."""

    def __init__(self, store: MemoryStore | None = None, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.store = store or MemoryStore(now_ms=self.clock)
        self.all: list[ClusterMetadata] = []

    def make(
        self,
        broker_id: int,
        heartbeat_ms: int = 10,
        timeout_ms: int = 50,
        store: MetadataStore | None = None,
        **changes: Any,
    ) -> ClusterMetadata:
        settings = Settings(
            node_id=broker_id,
            oncelog_brokers=3,
            broker_heartbeat_interval_ms=heartbeat_ms,
            broker_session_timeout_ms=SESSION_MS,
            initial_broker_registration_timeout_ms=timeout_ms,
            **changes,
        ).running()
        made = ClusterMetadata(store or self.store, settings, boottime_ms=self.clock)
        made.subscribe(DynamicSettings(settings, made.image).follow)
        self.all.append(made)
        return made

    async def start(
        self,
        broker_id: int,
        directory: DirectoryFacts | None = None,
        heartbeat_ms: int = 10,
        store: MetadataStore | None = None,
        **changes: Any,
    ) -> ClusterMetadata:
        made = self.make(broker_id, heartbeat_ms, store=store, **changes)
        await made.start(endpoints(broker_id), directory=directory or facts(broker_id))
        return made

    def kill(self, metadata: ClusterMetadata) -> None:
        """End the tasks of a broker as a kill does: its lease lives on."""
        self.all.remove(metadata)
        for task in (
            metadata.membership._keeping,
            metadata._controller._task,
            metadata.follower._watching,
        ):
            if task is not None:
                task.cancel()

    async def stop(self) -> None:
        self.store.is_cut_off = False
        for metadata in self.all:
            await metadata.stop()


def endpoints(broker_id: int) -> list[Endpoint]:
    return [Endpoint("PLAINTEXT", f"host{broker_id}", 9092)]


def facts(broker_id: int, directory: str = "", boot: str = "boot") -> DirectoryFacts:
    return DirectoryFacts(directory or f"directory-{broker_id}", boot)


async def until(holds: Callable[[], bool]) -> None:
    """Return when the condition holds. Raises TimeoutError after DEADLINE_S."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0.001)
