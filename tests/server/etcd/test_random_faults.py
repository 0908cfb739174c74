"""Drawn faults of all members. In the end, an image that follows the store agrees with etcd. No
write with a response is lost, and no write was carried out twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from oncelog_server.cluster.store import Compacted, Entry, Put, UnknownOutcome, Written
from oncelog_server.etcd.store import EtcdStore
from tests.examples import IS_QUICK
from tests.server.etcd.stores import PREFIX, create, in_simulation, until
from tests.server.metadata.collected import watching
from tests.simulation.etcd.faults import Fault
from tests.simulation.etcd.kv import KeyRange, Read
from tests.simulation.etcd.member import SimMember
from tests.simulation.etcd.processes import EtcdProcesses

SEEDS = range(2 if IS_QUICK else 8)
KEYS = ("a", "b", "c")
FAULTS_S = 40.0
TXN = "/v3/kv/txn"
ALL = Read(KeyRange(PREFIX.encode(), PREFIX[:-1].encode() + b"0"))


class Writer:
    """Writes each value once, by transactions that compare the present revision."""

    def __init__(self, store: EtcdStore, rng: Random) -> None:
        self._store = store
        self._rng = rng
        self.acknowledged: dict[bytes, int] = {}
        self.unknown: set[bytes] = set()
        self.refused: set[bytes] = set()

    async def write(self, name: str) -> None:
        number = 0
        while True:
            number += 1
            value = f"{name}-{number}".encode()
            key = self._rng.choice(KEYS)
            entry = await until(lambda key=key: self._store.get(key))  # type: ignore[misc]
            revision = 0 if entry is None else entry.mod_revision
            try:
                result = await self._store.txn([Written(key, revision)], [Put(key, value)])
            except UnknownOutcome:
                self.unknown.add(value)
            except OSError:
                self.refused.add(value)
            else:
                if result.succeeded:
                    self.acknowledged[value] = result.revision
                else:
                    self.refused.add(value)
            await asyncio.sleep(self._rng.random() / 5)


class Image:
    """The present entries, by a range and a watch, as the image of the metadata."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self.has_ended = False
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self._changed = asyncio.Event()

    async def reached(self, revision: int) -> None:
        """Return once the image has this revision, or does not follow the store any more."""
        while self.revision < revision and not self.has_ended:
            self._changed.clear()
            await self._changed.wait()

    async def follow(self) -> None:
        try:
            await self._follow()
        finally:
            self.has_ended = True
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            snapshot = await until(lambda: self._store.range(""))
            # The image never goes back.
            assert snapshot.revision >= self.revision
            self.entries = {entry.key: entry for entry in snapshot.entries}
            self.revision = snapshot.revision
            self._changed.set()
            try:
                async with watching(self._store, "", self.revision + 1, None) as watch:
                    async for changes in watch:
                        assert changes.revision > self.revision
                        self.revision = changes.revision
                        for event in changes.events:
                            assert event.entry is not None
                            assert event.entry.mod_revision == changes.revision
                            self.entries[event.key] = event.entry
                        self._changed.set()
            except Compacted:
                pass


async def break_things(around: EtcdProcesses, rng: Random) -> None:
    """Draw faults for FAULTS_S, and end all of them."""
    etcd, loop = around.etcd, asyncio.get_running_loop()
    ends = loop.time() + FAULTS_S
    killed: list[SimMember] = []
    while loop.time() < ends:
        await asyncio.sleep(rng.random())
        member = rng.choice(etcd.members)
        draw = rng.randrange(9)
        if draw == 0:
            member.cut()
        elif draw == 1 and not killed:
            around.kill(member)
            killed.append(member)
        elif draw == 2 and killed:
            await around.start_member(killed.pop())
        elif draw == 3:
            rng.choice([member.faults.awake, member.faults.watches]).close()
        elif draw == 4:
            member.faults.awake.open()
            member.faults.watches.open()
        elif draw == 5:
            etcd.lose_leader()
            loop.call_later(rng.uniform(0.3, 3.0), etcd.elect)
        elif draw == 6:
            newest = etcd.state.kv.revision
            compacted = rng.randint(max(etcd.state.kv.compacted, newest - 10), newest)
            if compacted > etcd.state.kv.compacted:
                etcd.state.kv.compact(compacted)
        elif draw == 7:
            etcd.state.put(b"foreign", b"")
        else:
            member.faults.add(TXN, rng.choice(list(Fault)))
    for member in killed:
        await around.start_member(member)
    for member in etcd.members:
        member.faults.awake.open()
        member.faults.watches.open()
    etcd.elect()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_image_agrees_with_etcd_after_drawn_faults(seed: int) -> None:
    async def scenario(store: EtcdStore, around: EtcdProcesses) -> None:
        rng = Random(seed)
        kv = around.etcd.state.kv
        written: dict[bytes, list[int]] = {}

        def note() -> None:
            for commit in kv.commits(ALL.keys, kv.revision):
                for event in commit.events:
                    assert event.present is not None
                    written.setdefault(event.present.value, []).append(commit.revision)

        kv.on_commit.append(note)
        image, writer = Image(store), Writer(store, rng)
        tasks = [asyncio.create_task(image.follow())]
        tasks += [asyncio.create_task(writer.write(name)) for name in ("x", "y")]
        await break_things(around, rng)
        for task in tasks[1:]:
            task.cancel()
        # Late transactions have an effect by now.
        await asyncio.sleep(10)
        end = await create(store, "end", b"end")
        async with asyncio.timeout(60):
            await image.reached(end)
        tasks[0].cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

        expected = {
            present.key.decode().removeprefix(PREFIX): (present.value, present.mod_revision)
            for present in kv.read(ALL).kvs
        }
        assert {
            key: (entry.value, entry.mod_revision) for key, entry in image.entries.items()
        } == expected
        assert all(len(revisions) == 1 for revisions in written.values())
        assert len(writer.acknowledged) > 20
        for value, revision in writer.acknowledged.items():
            assert written[value] == [revision]
        assert not writer.refused & set(written)
        unexplained = set(written) - set(writer.acknowledged) - writer.unknown - {b"end"}
        # The end of the test has cancelled one transaction of each writer.
        assert len(unexplained) <= 2

    in_simulation(scenario, members=3, seed=seed)
