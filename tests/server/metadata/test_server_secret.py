"""All brokers of a cluster get the same secret."""

from __future__ import annotations

from oncelog_server.metadata.server_secret import server_secret
from tests.server.metadata.memory_store import MemoryStore


async def test_the_first_drawn_secret_is_that_of_the_cluster() -> None:
    store = MemoryStore()
    assert await server_secret(store, b"first") == b"first"
    assert await server_secret(store, b"second") == b"first"
