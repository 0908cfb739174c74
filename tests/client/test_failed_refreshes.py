"""Metadata that cannot be refreshed: how often the client requests them. The tests run in simulated
time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from oncelog_client.config import consumer_config
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import CLOSE, ScriptedBroker, messages, simulated

SECONDS = 10
# A response without a broker, as a cluster gives it during its start.
NO_BROKERS = "no brokers"


@pytest.mark.parametrize("failure", [NO_BROKERS, CLOSE], ids=["no brokers", "closed"])
def test_failed_refreshes_are_repeated_with_a_growing_pause(failure: object) -> None:
    """A former defect: `refresh_soon` had no effect on the pace, so the next call after a failed
    refresh sent a request at once."""
    broker = ScriptedBroker()
    is_failing = False

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.METADATA or not is_failing:
            return None
        return messages(api).MetadataResponse() if failure is NO_BROKERS else failure

    broker.script = script

    async def call(cluster: Cluster, seconds: float) -> list[float]:
        """Call `refresh_soon` a hundred times a second. Return the times of the requests in s."""
        broker.requests.clear()
        for _ in range(round(seconds * 100)):
            cluster.refresh_soon()
            await asyncio.sleep(0.01)
        return [at_s for at_s, api, _ in broker.requests if api is ApiKey.METADATA]

    async def scenario() -> None:
        nonlocal is_failing
        cluster = Cluster(consumer_config("broker:9092", {}), auto_create=False)
        await cluster.start()
        try:
            is_failing = True
            failed_s = await call(cluster, SECONDS)
            # retry.backoff.ms is 100, retry.backoff.max.ms is 1,000.
            assert SECONDS <= len(failed_s) <= SECONDS + 8
            assert 0.7 < max(later - earlier for earlier, later in pairwise(failed_s)) < 1.3
            is_failing = False
            refreshed_s = await call(cluster, 3)
            pauses_s = [later - earlier for earlier, later in pairwise(refreshed_s)]
            # After a success the pause is again 100 ms.
            assert max(pauses_s) < 0.13
        finally:
            await cluster.close()

    simulated(broker, scenario)
