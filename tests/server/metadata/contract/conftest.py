"""The stores that keep the contract of `MetadataStore`: sqlite, sqlite behind a socket, the
simulator's store, and the store in etcd (with a simulated and with a real etcd)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog_server.cluster.store import MetadataStore
from oncelog_server.etcd.store import EtcdStore
from oncelog_server.metadata.sqlite_store import SqliteStore
from oncelog_server.settings.etcd_addresses import parse_addresses
from oncelog_server.shared_store.client import SocketStore
from oncelog_server.shared_store.server import SharedStore
from tests.harness.etcd import Etcd
from tests.server.metadata.memory_store import MemoryStore
from tests.simulation.etcd.server import SimEtcd

STORES = [
    "sqlite",
    "shared",
    "socket",
    "memory",
    "simulated etcd",
    pytest.param("real etcd", marks=pytest.mark.process),
]


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    """An empty store. The real etcd also has keys of other tests."""
    kind = request.param
    simulated = SimEtcd() if kind == "simulated etcd" else None
    opened: MetadataStore
    if simulated is not None:
        await simulated.start()
        opened = etcd_store(f"http://{simulated.endpoints[0]}")
    elif kind == "real etcd":
        real: Etcd = request.getfixturevalue("real_etcd")
        opened = etcd_store(*real.urls)
    elif kind == "memory":
        opened = MemoryStore()
    else:
        opened = await SqliteStore.open(tmp_path / "metadata.sqlite")
    shared: SharedStore | None = None
    if kind in {"shared", "socket"}:
        opened = shared = SharedStore(opened, tmp_path, "metadata.sock")
        await shared.open()
    if kind == "socket":
        opened = SocketStore(tmp_path, "metadata.sock")
    yield opened
    await opened.close()
    if kind == "socket" and shared is not None:
        await shared.close()
    if simulated is not None:
        simulated.close()


def etcd_store(*urls: str) -> EtcdStore:
    """Return a store with keys that no other test uses."""
    return EtcdStore(parse_addresses(urls), f"/{uuid.uuid4().hex}/")
