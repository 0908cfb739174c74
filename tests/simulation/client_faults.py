"""Faults of clients and of connections, which all simulated worlds share."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.fault import Fault
from tests.simulation.net import Link
from tests.simulation.process import PAUSED

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld


class ClientFaults:
    """Inflicts faults on clients and connections. A subclass has a method `_kind` for each further
    kind of fault. Each fault ends after its duration. At the end of all faults, the world ends
    those that remain."""

    def __init__(self, world: BaseWorld) -> None:
        self.world = world

    def inflict(self, fault: Fault) -> None:
        if self.world.is_healed:
            return
        rng = Random(fault.seed)
        if getattr(self, "_" + fault.kind.replace("-", "_"))(fault, rng) is not False:
            self.world.inflicted[fault.kind] += 1

    # Clients.

    def _pause_client(self, fault: Fault, rng: Random) -> bool:
        world = self.world
        running = [
            client for client in world.clients if client.process and not client.process.is_dead
        ]
        if not running:
            return False
        process = rng.choice(running).me
        if process.state == PAUSED:
            return False
        process.state = PAUSED

        def go_on() -> None:
            if process.state == PAUSED:
                world.loop.resume(process)

        world.after(fault.for_us, go_on)
        return True

    def _kill_client(self, fault: Fault, rng: Random) -> bool:
        world = self.world
        running = [
            client for client in world.clients if client.process and not client.process.is_dead
        ]
        if not running:
            return False
        rng.choice(running).me.die()
        return True

    # The network.

    def _reset(self, fault: Fault, rng: Random) -> None:
        for link in self._some_links(rng):
            self.world.net.reset(link)

    def _vanish(self, fault: Fault, rng: Random) -> None:
        for link in self._some_links(rng):
            self.world.net.vanish(link)

    def _hold(self, fault: Fault, rng: Random) -> None:
        for link in self._some_links(rng):
            self.world.net.hold(link, fault.for_us)

    def _some_links(self, rng: Random) -> list[Link]:
        links = self.world.net.open_links()
        return rng.sample(links, rng.randint(min(1, len(links)), len(links)))
