"""A broker that stops moves its leaders while it serves, and acks=all continues at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_client.producer import Producer
from oncelog_server.cluster import records
from tests.server.replication.brokers import TOPIC, Cluster, cluster

# A fetch in flight waits this long for records. No move of a leader may wait for its end.
FETCH_WAIT_MS = 120_000
DEADLINE_S = 30


async def send(found: Cluster, partition: int, value: str) -> None:
    async with Producer(found.addresses, acks="all", linger_ms=0) as producer:
        await producer.send_and_wait(TOPIC, value.encode(), partition=partition)


async def test_a_new_leader_commits_without_waiting_for_a_fetch_in_flight(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, replica_fetch_wait_max_ms=FETCH_WAIT_MS) as found:
        await found.create((1, 2, 3), (2, 3, 1))
        async with asyncio.timeout(DEADLINE_S):
            for partition in (0, 1):
                await send(found, partition, "before")
            await found.brokers.pop(1).stop()
            image = found.image(0)
            assert (image.leader, set(image.isr)) == (2, {2, 3})
            # When the leader moved, broker 3 had a fetch in flight to broker 2 without this
            # partition.
            for partition in (0, 1):
                await send(found, partition, "after")


async def test_brokers_that_stop_together_end_soon(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as found:
        await found.create((1, 2, 3), (2, 3, 1), (3, 1, 2))
        stopping = [found.brokers.pop(broker_id) for broker_id in (1, 2, 3)]
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(broker.stop() for broker in stopping))
        assert not any(key.startswith(records.BROKERS) for key in found.store.entries)
