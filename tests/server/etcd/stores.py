"""Opens the store in etcd for tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from oncelog_protocol.secret import Secret
from oncelog_server.cluster.store import Created, Put
from oncelog_server.etcd.members import NewContext
from oncelog_server.etcd.session import Login
from oncelog_server.etcd.store import EtcdStore
from oncelog_server.settings.etcd_addresses import parse_addresses
from tests.harness.etcd import ROOT
from tests.simulation.etcd.processes import EtcdProcesses, simulate

T = TypeVar("T")

PREFIX: Final = "/oncelog/test/"
# Several elections of a busy etcd.
DEADLINE_S: Final = 60.0


@asynccontextmanager
async def opened(
    *urls: str,
    prefix: str | None = None,
    password: str | None = None,
    context: NewContext | None = None,
) -> AsyncIterator[EtcdStore]:
    """Open a store, by default with keys that no other test uses."""
    login = None if password is None else Login(ROOT, Secret(password))
    store = EtcdStore(
        parse_addresses(urls), prefix or f"/{uuid.uuid4().hex}/", context=context, login=login
    )
    try:
        yield store
    finally:
        await store.close()


def in_simulation(
    scenario: Callable[[EtcdStore, EtcdProcesses], Awaitable[T]],
    *,
    members: int = 1,
    seed: int = 0,
    passwords: Mapping[str, str] | None = None,
) -> T:
    """Run a scenario with a store and a simulated etcd, in simulated time. Return its result."""

    async def run(around: EtcdProcesses) -> T:
        urls = [f"http://{endpoint}" for endpoint in around.etcd.endpoints]
        password = None if passwords is None else passwords[ROOT]
        async with opened(*urls, prefix=PREFIX, password=password) as store:
            return await scenario(store, around)

    return simulate(run, members=members, seed=seed, passwords=passwords)


async def create(store: EtcdStore, key: str, value: bytes) -> int:
    """Create a key. Return its revision. While etcd does not respond, try again, as a broker
    does."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                result = await store.txn([Created(key, 0)], [Put(key, value)])
            except OSError:
                continue  # the store itself pauses
            if result.succeeded:
                return result.revision
            (entry,) = result.current
            # An attempt without a response was carried out.
            assert entry is not None
            assert entry.value == value
            return entry.create_revision


async def until(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call, as soon as it does not raise OSError."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await call()
            except OSError:
                await asyncio.sleep(0.05)
