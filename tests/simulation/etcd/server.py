"""A simulated etcd of one or three members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tests.simulation.etcd.member import SimMember
from tests.simulation.etcd.state import State


class SimEtcd:
    """The members, which share one state.

    Call `start` on a real loop. In a simulation, call each member's `start` in its own process.
    `passwords`: the users; `root` alone may read and write keys. `clock` returns seconds, by
    default the time of the loop. `loop`: by default the running one.
    """

    def __init__(
        self,
        members: int = 1,
        *,
        passwords: Mapping[str, str] | None = None,
        clock: Callable[[], float] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        loop = loop or asyncio.get_running_loop()
        self.state = State(clock or loop.time, loop, passwords=passwords)
        self.members = [SimMember(self.state, index) for index in range(members)]

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the addresses of the members, HOST:PORT."""
        return tuple(member.address for member in self.members)

    async def start(self) -> None:
        for member in self.members:
            await member.start()

    def close(self) -> None:
        for member in self.members:
            member.kill()
        self.state.close()

    def lose_leader(self) -> None:
        """Let all members be without a leader until `elect`."""
        for member in self.members:
            member.faults.leader.close()

    def elect(self) -> None:
        """Elect a leader."""
        self.state.elect()
        for member in self.members:
            member.faults.leader.open()
