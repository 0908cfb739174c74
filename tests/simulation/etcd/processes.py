"""A simulated etcd in a simulated network: each member is a process on a host of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Final, TypeVar

from tests.simulation.etcd.member import SimMember
from tests.simulation.etcd.server import SimEtcd
from tests.simulation.loop import SimLoop
from tests.simulation.net import SimNet
from tests.simulation.process import Process

T = TypeVar("T")

PORT: Final = 2379
# Far above the steps of any scenario here.
MAX_STEPS: Final = 2_000_000


class EtcdProcesses:
    """The members `etcd-1:2379` and so on. `new_process(name)` makes the process of one start."""

    def __init__(
        self,
        new_process: Callable[[str], Process],
        members: int = 1,
        *,
        passwords: Mapping[str, str] | None = None,
        loop: SimLoop | None = None,
    ) -> None:
        self.etcd = SimEtcd(members, passwords=passwords, loop=loop)
        self._new_process = new_process
        self._processes: dict[SimMember, Process] = {}

    async def start(self) -> None:
        for member in self.etcd.members:
            await self.start_member(member)

    async def start_member(self, member: SimMember) -> None:
        """Start a member, also again after a kill."""
        host = host_of(self.etcd.members.index(member))
        process = self._processes[member] = self._new_process(host)
        await process.run(member.start(host, PORT))

    def kill(self, member: SimMember) -> None:
        """Kill the process of a member."""
        self._processes[member].die()

    def is_down(self, member: SimMember) -> bool:
        return self._processes[member].is_dead

    @property
    def hosts(self) -> list[str]:
        return [host_of(index) for index in range(len(self.etcd.members))]

    def end_faults(self) -> None:
        """End the faults of all members, and elect a leader. Members that are down stay so."""
        for member in self.etcd.members:
            member.faults.end()
        self.etcd.elect()


def simulate(
    scenario: Callable[[EtcdProcesses], Awaitable[T]],
    *,
    members: int = 1,
    seed: int = 0,
    passwords: Mapping[str, str] | None = None,
) -> T:
    """Run a scenario in the process of a client, beside an etcd, in simulated time. Return its
    result."""
    loop = SimLoop(seed, max_steps=MAX_STEPS)
    loop.network = SimNet(loop, Random(seed))
    processes: list[Process] = []

    def new_process(name: str) -> Process:
        processes.append(Process(name, len(processes) + 1))
        return processes[-1]

    async def whole() -> T:
        around = EtcdProcesses(new_process, members, passwords=passwords)
        await around.start()
        results: list[T] = []

        async def run() -> None:
            results.append(await scenario(around))

        assert await new_process("client").run(run())
        around.etcd.state.close()
        return results[0]

    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(whole())
        assert not loop.failures, loop.failures
        return result
    finally:
        for process in processes:
            process.bury()
        asyncio.set_event_loop(None)
        loop.close()


def host_of(index: int) -> str:
    """Return the host of the member with this index."""
    return f"etcd-{index + 1}"
