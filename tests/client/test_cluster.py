"""Who waits for a connection hears of it, whoever is opening it."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

from oncelog_client.cluster import Cluster
from oncelog_client.config import producer_config

DEADLINE_S = 5.0


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_failed_opening_by_another_is_told_as_well() -> None:
    """A sender that was not told stood still after the broker's restart."""
    port = _closed_port()
    cluster = Cluster(producer_config(f"127.0.0.1:{port}", {}), auto_create=False)
    node: Any = SimpleNamespace(host="127.0.0.1", port=port)
    cluster.metadata = SimpleNamespace(brokers={1: node})  # type: ignore[assignment]
    lock = cluster._connecting.setdefault((("127.0.0.1", port), ""), asyncio.Lock())
    told = asyncio.Event()
    async with lock:  # another call is opening the connection
        assert cluster.ready_connection(1, "", told.set) is None
    async with asyncio.timeout(DEADLINE_S):
        await told.wait()
    await cluster.close()
