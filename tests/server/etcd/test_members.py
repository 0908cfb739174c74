"""The store in an etcd of three members continues while a member is killed, paused or restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from oncelog_server.cluster.store import Changes
from oncelog_server.etcd.store import EtcdStore
from tests.harness.etcd import Etcd
from tests.server.etcd.stores import create, opened, until
from tests.server.metadata.collected import watching
from tests.simulation.etcd.server import SimEtcd

TTL_MS = 30_000


class Cluster:
    """Three members. `kill` and `pause` act on the member at `index`. `resume` makes all of them
    respond again."""

    def __init__(self, etcd: Etcd | SimEtcd) -> None:
        self._etcd = etcd
        self._killed: set[int] = set()

    @property
    def urls(self) -> list[str]:
        return [f"http://{endpoint}" for endpoint in self._etcd.endpoints]

    def kill(self, index: int) -> None:
        self._etcd.members[index].kill()
        self._killed.add(index)

    def pause(self, index: int) -> None:
        if isinstance(self._etcd, Etcd):
            self._etcd.members[index].pause()
        else:
            self._etcd.members[index].faults.awake.close()

    async def resume(self) -> None:
        killed, self._killed = self._killed, set()
        if isinstance(self._etcd, SimEtcd):
            await resume_simulated(self._etcd, killed)
        else:
            await asyncio.to_thread(resume_real, self._etcd, killed)


async def resume_simulated(etcd: SimEtcd, killed: set[int]) -> None:
    for index, member in enumerate(etcd.members):
        member.faults.awake.open()
        if index in killed:
            await member.start()


def resume_real(etcd: Etcd, killed: set[int]) -> None:
    for index, member in enumerate(etcd.members):
        if index not in killed:
            member.resume()
    etcd.start(*(etcd.members[index] for index in killed))


@pytest.fixture(scope="module")
def real_members(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("members"), members=3) as etcd:
        yield etcd


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.process)])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    if request.param == "real":
        cluster = Cluster(request.getfixturevalue("real_members"))
        yield cluster
        await cluster.resume()
        return
    simulated = SimEtcd(3)
    await simulated.start()
    yield Cluster(simulated)
    simulated.close()


@pytest.mark.parametrize("how", [Cluster.kill, Cluster.pause])
async def test_the_store_continues_at_another_member(
    cluster: Cluster, how: Callable[[Cluster, int], None]
) -> None:
    async with opened(*cluster.urls) as store:
        lease = await until(lambda: store.lease(TTL_MS))
        first = await create(store, "a", b"1")
        async with watching(store, "", first) as watch:
            assert (await anext(watch)).revision == first
            # The store uses the first member until a call to it fails.
            how(cluster, 0)
            assert await until(lambda: store.get("a")) is not None
            second = await create(store, "b", b"2")
            assert await until(lease.keep_alive) == TTL_MS
            third = await create(store, "c", b"3")
            assert [(await anext(watch)).revision for _ in range(2)] == [second, third]
        assert [entry.key for entry in (await until(lambda: store.range(""))).entries] == [
            "a",
            "b",
            "c",
        ]
        await until(lease.revoke)


async def test_the_store_continues_after_all_members_were_away(cluster: Cluster) -> None:
    async with opened(*cluster.urls) as store:
        first = await create(store, "a", b"1")
        async with watching(store, "", first) as watch:
            await anext(watch)
            for index in range(3):
                cluster.kill(index)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await store.get("a")
            await cluster.resume()
            second = await create(store, "b", b"2")
            changes: Changes = await anext(watch)
            assert changes.revision == second
            assert [event.key for event in changes.events] == ["b"]


async def test_members_that_restart_one_after_another_lose_no_change(
    cluster: Cluster,
) -> None:
    async with opened(*cluster.urls) as store:
        revisions = [await create(store, "first", b"")]
        async with watching(store, "", revisions[0]) as watch:
            for index in range(2):
                cluster.kill(index)
                for number in range(3):
                    revisions.append(await create(store, f"{index}-{number}", b""))
                await cluster.resume()
                await settled(store)
            seen = [(await anext(watch)).revision for _ in revisions]
    assert seen == revisions


async def settled(store: EtcdStore) -> None:
    """Wait until etcd responds, after a member has started again."""
    await until(lambda: store.get("first"))
