"""Loads of coordinator shards that advance only when the script of a test says so."""

from __future__ import annotations

from typing import Any

from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.deferred import Deferred
from oncelog_server.slices import Steps
from tests.simulation.cluster.member_node import MemberNode


class HeldLoad:
    """One load of the shard `index`, in the leader epoch `epoch`."""

    def __init__(self, node: MemberNode, index: int, epoch: int) -> None:
        self._node = node
        self.index = index
        self.epoch = epoch
        self.steps: Steps[None] | None = None
        self.result: Deferred[None] = Deferred()

    @property
    def has_ended(self) -> bool:
        return self.result.done

    async def advance(self, count: int) -> None:
        """Do up to this number of steps. A step replays a record."""
        await self._in_broker(count)

    async def finish(self) -> None:
        """Do all steps that are left."""
        await self._in_broker(None)

    async def _in_broker(self, count: int | None) -> None:
        async def work() -> None:
            assert self.steps is not None
            left = count
            while left is None or left > 0:
                try:
                    next(self.steps)
                except StopIteration:
                    self.result.complete(None)
                    return
                left = None if left is None else left - 1

        assert self._node.process is not None
        await self._node.process.run(work())


class HeldLoads(list[HeldLoad]):
    """The loads of an internal topic's shards at a broker, from now on. The event loop does not run
    their steps: the script does."""

    def __init__(self, node: MemberNode, runtime: ShardRuntime[Any]) -> None:
        super().__init__()
        self._runtime = runtime
        load, self._work = runtime._load, runtime._work

        def begin(index: int, partition: Any, attempt: Any) -> Any:
            self.append(HeldLoad(node, index, attempt.epoch))
            return load(index, partition, attempt)

        def hold(steps: Steps[Any]) -> Deferred[None]:
            self[-1].steps = steps
            return self[-1].result

        runtime._load = begin  # type: ignore
        runtime._work = hold  # type: ignore

    def of(self, index: int) -> list[HeldLoad]:
        """Return the loads of a shard, in their order."""
        return [load for load in self if load.index == index]

    async def release(self) -> None:
        """Finish all loads, and hold no further ones."""
        del self._runtime._load
        self._runtime._work = self._work
        for load in self:
            if not load.has_ended:
                await load.finish()
