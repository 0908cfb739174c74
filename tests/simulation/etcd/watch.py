"""A watch at a member of a simulated etcd: the elements of its stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from tests.simulation.etcd import bodies
from tests.simulation.etcd.failures import NAMES, NO_LEADER, EtcdFailure
from tests.simulation.etcd.faults import NO_LEADER_S
from tests.simulation.etcd.gateway import Document, stream_failure
from tests.simulation.etcd.kv import KeyRange
from tests.simulation.etcd.requests import Request

if TYPE_CHECKING:
    from tests.simulation.etcd.member import SimMember

# A watch that is behind gets this many revisions in one element (etcd's watchBatchMaxRevs).
BATCH: Final = 1000
# A member looks for its leader this often (one timeout of an election).
LOOK_S: Final = 1.0


class Watch:
    def __init__(self, member: SimMember, request: Request) -> None:
        self._member = member
        self._kv = member.state.kv
        self._gateway = member.gateway
        self._request = request
        self._changed = asyncio.Event()
        self._without_leader_s = 0.0
        # False: the watch is behind, and gets the events of many revisions in one element.
        self._is_synced = False

    async def elements(self) -> AsyncGenerator[Document, None]:
        """Yield the elements. The stream ends with an error if the watch needs a leader and the
        member has none."""
        create = bodies.parsed(bodies.WatchBody, self._request.body).create_request
        if create is None:
            await _for_ever()
        assert create is not None
        try:
            self._member.state.users.check(self._request.token)
        except EtcdFailure as error:
            name, message = NAMES[error.failure.code], error.failure.message
            yield self._gateway.refused(f"rpc error: code = {name} desc = {message}")
            await _for_ever()
        keys = KeyRange(create.key, create.range_end)
        following = create.start_revision or self._kv.revision + 1
        self._kv.on_commit.append(self._changed.set)
        try:
            yield self._gateway.created()
            while True:
                await self._passed()
                if following < self._kv.compacted:
                    yield self._gateway.compacted()
                    await _for_ever()
                elements = list(self._events(keys, following))
                following = max(following, self._kv.revision + 1)
                for element in elements:
                    yield element
                if not await self._has_leader():
                    yield stream_failure(NO_LEADER)
                    return
        finally:
            self._kv.on_commit.remove(self._changed.set)

    async def _passed(self) -> None:
        faults = self._member.faults
        for gate in (faults.awake, faults.watches):
            if not gate.is_open:
                self._is_synced = False
                await gate.passed()

    def _events(self, keys: KeyRange, following: int) -> Iterator[Document]:
        self._changed.clear()
        commits = self._kv.commits(keys, following)
        if self._is_synced:
            for commit in commits:
                yield self._gateway.events([commit], commit.revision)
        else:
            while batch := list(islice(commits, BATCH)):
                yield self._gateway.events(batch, self._kv.revision)
        self._is_synced = True

    async def _has_leader(self) -> bool:
        """Wait for a change. Return False if the member has been without a leader for too long."""
        if not self._request.needs_leader:
            await self._changed.wait()
            return True
        while not self._changed.is_set():
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            except TimeoutError:
                has_leader = self._member.faults.leader.is_open
                self._without_leader_s = 0.0 if has_leader else self._without_leader_s + LOOK_S
                if self._without_leader_s >= NO_LEADER_S:
                    return False
        return True


async def _for_ever() -> None:
    """Wait until the connection ends. etcd keeps the stream of an ended watch open."""
    await asyncio.Event().wait()
