"""A client's connections, refreshes of metadata and background tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog.testing.ports import free_ports
from oncelog_client.config import producer_config
from oncelog_client.connect_failures import ConnectCause, ConnectFailure
from oncelog_client.core.metadata import Metadata
from oncelog_client.errors import DisconnectedError
from oncelog_client.io.cluster import Cluster, lasting
from oncelog_client.values import Node
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S


async def test_the_callback_is_called_if_the_connect_of_another_call_fails() -> None:
    """A former defect: a failed connect did not call the sender's callback. The sender then stopped
    after a restart of the broker."""
    (port,) = free_ports(1)
    cluster = Cluster(producer_config(f"127.0.0.1:{port}", {}), auto_create=False)
    cluster.metadata = Metadata(brokers={1: Node(1, "127.0.0.1", port)})
    lock = cluster._connections._opening.setdefault((("127.0.0.1", port), ""), asyncio.Lock())
    called = asyncio.Event()
    async with lock:  # another call is opening the connection
        assert cluster.ready_connection(1, "", called.set) is None
    async with asyncio.timeout(DEADLINE_S):
        await called.wait()
    await cluster.close()


async def test_metadata_without_a_leader_are_refreshed_with_a_back_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A former defect: without a leader for a partition, the sender refreshed metadata as fast as
    the broker could respond."""
    cluster = Cluster(
        producer_config("127.0.0.1:9", {"retry_backoff_ms": 60_000}), auto_create=False
    )
    asked = 0

    async def answer(*_: object) -> MetadataResponse:
        nonlocal asked
        asked += 1
        return MetadataResponse(brokers=[MetadataResponseBroker(1, "127.0.0.1", 9)])

    monkeypatch.setattr(cluster, "call_any", answer)
    cluster.on_metadata.append(cluster.refresh_soon)
    cluster.refresh_soon()
    # Without a back-off, a refresh ends within a few turns of the loop and begins the next refresh.
    for _ in range(100):
        await asyncio.sleep(0)
    assert asked == 1
    await cluster.close()


async def test_a_closed_client_opens_no_more_connections() -> None:
    """A former defect: after a failed response during its close, a consumer retried forever
    without a back-off. Each attempt failed at once and its callback began the next attempt."""
    cluster = Cluster(producer_config("127.0.0.1:9", {}), auto_create=False)
    cluster.metadata = Metadata(brokers={1: Node(1, "127.0.0.1", 9)})
    await cluster.close()
    called = 0

    def again() -> None:
        nonlocal called
        called += 1
        cluster.ready_connection(1, "", again)

    again()
    # Without a back-off, there was one call per turn of the loop.
    for _ in range(20):
        await asyncio.sleep(0)
    assert called == 1


async def test_background_tasks_end_in_the_order_of_their_starts() -> None:
    """A former defect: a set orders tasks by memory address, so one seed of the
    simulation gave different runs in different processes."""
    cluster = Cluster(producer_config("127.0.0.1:9", {}), auto_create=False)
    ended: list[int] = []

    async def run(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    for number in range(100):
        cluster.spawn(run(number))
    await asyncio.sleep(0)  # one turn: each task takes its first step
    await cluster.close()
    assert ended == list(range(100))


async def test_a_second_request_uses_the_bootstrap_connection_despite_another_advertised_name(
    tmp_path: Path,
) -> None:
    """A former defect: the second request of a command opened a second connection, to the
    advertised name."""
    (port,) = free_ports(1)
    advertised = {"advertised.listeners": f"PLAINTEXT://localhost:{port}"}
    broker = Oncelog(tmp_path, advertised)
    broker.port = port
    with broker:
        cluster = Cluster(producer_config(f"127.0.0.1:{port}", {}), auto_create=False)
        await cluster.start()
        await cluster.call_any(MetadataRequest(topics=None), MetadataResponse)
        assert len(list(cluster._connections)) == 1
        # The cluster prefers a connection to a known broker.
        known = await cluster.connection(("localhost", port))
        idle_ms = known.last_used_ms
        await cluster.call_any(MetadataRequest(topics=None), MetadataResponse)
        assert known.last_used_ms > idle_ms
        await cluster.close()


def test_a_connection_that_is_closed_once_may_be_that_of_a_broker_that_stops() -> None:
    def closed(*causes: ConnectCause) -> DisconnectedError:
        error = DisconnectedError("closed")
        error.failures = tuple(ConnectFailure(("a", 1), cause) for cause in causes)
        return error

    is_lasting = lasting()
    assert not is_lasting(closed(ConnectCause.NEEDS_SASL))
    assert not is_lasting(closed())
    assert not is_lasting(closed(ConnectCause.NEEDS_SASL))
    assert is_lasting(closed(ConnectCause.NEEDS_SASL))
    assert is_lasting(closed(ConnectCause.TLS))
