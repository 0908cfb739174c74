"""A transactional copy loop while the brokers of a cluster are killed or stopped, one after the
other: no record is lost, none is duplicated."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.reading import in_sync
from tests.cluster.secured import SecuredCluster
from tests.copiers.running import Copiers, Feed, audit, progress
from tests.copiers.work import PARTITIONS, Work
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

# Each broker once, and the first again.
BROKERS = (1, 2, 3, 1)
# The coordinators of the group and of the transactional ids are on all brokers.
COPIERS = 2
RECORDS = 200
# Far more often than certificates are reloaded in reality.
RELOADS_PER_S: Final = 10

Progress = Callable[[Work, Copiers, int], Awaitable[None]]


@asynccontextmanager
async def fed(cluster: Cluster) -> AsyncIterator[Feed]:
    login = "" if cluster.login is None else str(cluster.login)
    feed = Feed(Work(cluster.address, "copies", 0, login=login), replicas=3)
    await feed.create()
    feed.feeding = asyncio.create_task(feed.run())
    try:
        yield feed
    finally:
        await feed.stop()


async def copy_over_losses(
    cluster: Cluster,
    kind: str,
    losses: Sequence[tuple[int, str]],
    progress: Progress = progress,
) -> None:
    """Lose one broker after the other, and audit the copies. A loss is the id of the broker, and
    `kill` if it dies, or `stop` if it ends cleanly and leaves the cluster. `progress` waits until
    a number of further records is copied."""
    admin = AdminClient({**cluster.librdkafka, "log_level": 0})
    async with fed(cluster) as feed:
        work = feed.work
        copiers = Copiers(work.address, work.name, timeout_ms=30_000, login=work.login)
        try:
            for number in range(COPIERS):
                copiers.start(number, kind)
            await progress(work, copiers, RECORDS)
            for broker_id, how in losses:
                broker = cluster.brokers[broker_id]
                await asyncio.to_thread(broker.kill if how == "kill" else broker.stop)
                await progress(work, copiers, RECORDS)
                await asyncio.to_thread(broker.start)
                await asyncio.to_thread(wait_for_replicas, admin, work)
            await audit(feed, copiers)
        finally:
            copiers.close()


def wait_for_replicas(admin: AdminClient, work: Work) -> None:
    def are_whole() -> bool:
        return all(in_sync(admin, topic, PARTITIONS) for topic in (work.input, work.output))

    wait_until(are_whole, "all replicas are in sync", 60)


@pytest.mark.parametrize(
    ("kind", "how"), [("consumer", "kill"), ("consumer", "stop"), ("group", "kill")]
)
async def test_a_copy_loop_loses_and_doubles_nothing_over_the_loss_of_brokers(
    cluster: Cluster, kind: str, how: str
) -> None:
    """`kind`: the kind of the copiers. With group transactions, one broker coordinates the group's
    offsets, another one its transactions, and others the transactional ids."""
    await copy_over_losses(cluster, kind, [(broker_id, how) for broker_id in BROKERS])


async def test_a_secured_cluster_copies_over_losses_while_certificates_are_reloaded(
    secured_cluster: SecuredCluster,
) -> None:
    """The sessions between the brokers end several times, too."""

    async def progress_over_reloads(work: Work, copiers: Copiers, records: int) -> None:
        reloading = asyncio.create_task(reload_certificates(secured_cluster))
        try:
            await progress(work, copiers, records)
        finally:
            reloading.cancel()

    losses = [(1, "kill"), (2, "stop")]
    await copy_over_losses(secured_cluster, "group", losses, progress_over_reloads)
    for broker in secured_cluster.brokers.values():
        log = broker.log.read_text()
        assert log.count('"certificates reloaded"') >= RELOADS_PER_S
        assert "certificates not reloaded" not in log


async def reload_certificates(cluster: SecuredCluster) -> None:
    """Give the running brokers new certificates, again and again."""
    while True:
        for broker in cluster.brokers.values():
            if broker.is_running:
                broker.show(cluster.certificates.broker("new"))
                os.kill(broker.pid, signal.SIGHUP)
        await asyncio.sleep(1 / RELOADS_PER_S)
