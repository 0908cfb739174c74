"""The clocks of a `World`, the in-memory broker of a test."""

from __future__ import annotations

from tests.server.transaction.world import World


class WorldClock:
    """A `Clock` with the simulated time of the world."""

    def __init__(self, world: World) -> None:
        self.now_ms = world.wall
        self.monotonic_ms = self.boottime_ms = world.now

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000
