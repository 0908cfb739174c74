"""A store in memory, and a single broker's view of its metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings
from tests.server.metadata.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def metadata(store: MemoryStore) -> AsyncIterator[ClusterMetadata]:
    metadata = ClusterMetadata(store, Settings())
    await metadata.start([Endpoint("PLAINTEXT", "localhost", 9092)])
    yield metadata
    await metadata.stop()
