"""The clocks of a test's `World`."""

from __future__ import annotations

from tests.server.transaction.world import World


class WorldClock:
    """A `Clock` that shows the time of the world's timers."""

    def __init__(self, world: World) -> None:
        self.now_ms = world.wall
        self.monotonic_ms = world.now

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000
