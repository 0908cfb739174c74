"""The faults of a broker: its process, its disk and its clock."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.client_faults import ClientFaults
from tests.simulation.disk import Loss, Trap
from tests.simulation.fault import Fault
from tests.simulation.full_at import METADATA, Healing, draw_kinds, full_for, observe_refused, times
from tests.simulation.options import Options
from tests.simulation.process import Killed

if TYPE_CHECKING:
    from tests.simulation.world import World

DAMAGEABLE = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
TRAP_MATCHES = ("", "", "append", "rename", "sync", "__transaction_state", "__consumer_offsets",
                "a-0", "create", "unlink", "checkpoint")  # fmt: skip
HOUR_MS = 3_600_000


def draw_full_disks(rng: Random, options: Options, first: int) -> list[Fault]:
    """Return faults that make the disk full for some kinds of files. They have their own random
    generator, so that they do not change the other faults of a seed. `first`: the number of the
    first of these faults."""
    found = [(at_us, for_us, rng.getrandbits(32)) for at_us, for_us in times(rng, options)]
    return [
        Fault(first + number, at_us, "full-at", for_us, seed)
        for number, (at_us, for_us, seed) in enumerate(sorted(found))
    ]


class Faults(ClientFaults):
    """The faults of a world with one broker."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._world = world

    # The process.

    def _kill(self, fault: Fault, rng: Random) -> bool:
        world = self._world
        if not world.node.is_up:
            return False
        world.node.kill()
        self._damage(rng)
        world.restart_after(fault.for_us)
        return True

    def _kill_inside(self, fault: Fault, rng: Random) -> None:
        world = self._world
        node = world.node

        def spring() -> None:
            world.sometimes.met("killed inside a change of the disk")
            world.inflicted["sprung trap"] += 1
            world.restart_after(fault.for_us)
            assert node.process is not None
            node.process.die()
            raise Killed

        node.disk.trap = Trap(
            rng.choice((1, 2, 5, 20, 60)),
            rng.choice(TRAP_MATCHES),
            spring,
            torn=rng.random() < 0.3,
        )

    def _power(self, fault: Fault, rng: Random) -> bool:
        world = self._world
        if not world.node.is_up:
            return False
        world.node.kill()
        self._lose_power()
        self._damage(rng)
        world.restart_after(fault.for_us)
        return True

    def _power_inside(self, fault: Fault, rng: Random) -> None:
        world = self._world
        node = world.node

        def spring() -> None:
            world.inflicted["sprung trap"] += 1
            world.sometimes.met("power lost inside a change of the disk")
            assert node.process is not None
            node.process.die()
            # The power fails after this callback, because the callback runs in the middle of an
            # operation of the disk.
            world.loop.call_soon(self._lose_power, context=world.context)
            world.restart_after(fault.for_us)
            raise Killed

        node.disk.trap = Trap(
            rng.choice((1, 2, 5, 20, 60)), rng.choice(TRAP_MATCHES), spring, torn=True
        )

    def _lose_power(self) -> None:
        options = self._world.options
        self._world.node.disk.lose_power(
            Loss(ordered=options.loss_ordered, holes=options.loss_holes)
        )

    def _damage(self, rng: Random) -> None:
        """Damage files that can be rebuilt: flip a bit in them, cut them or remove them."""
        world = self._world
        if rng.random() >= world.options.damage:
            return
        disk = world.node.disk
        disk.trap = None
        candidates = [path for path in sorted(disk.names.files) if path.endswith(DAMAGEABLE)]
        for path in rng.sample(candidates, min(len(candidates), 3)):
            how = rng.choice(("flip", "cut", "remove"))
            world.inflicted[f"damage {how}"] += 1
            disk.damage(path, how)

    def _stop(self, fault: Fault, rng: Random) -> bool:
        world = self._world
        if not world.node.is_up:
            return False
        world.stop_and_restart(fault.for_us)
        return True

    def _pause(self, fault: Fault, rng: Random) -> bool:
        world = self._world
        if not world.node.pause():
            return False
        world.after(fault.for_us, world.node.resume)
        return True

    # The disk.

    def _full(self, fault: Fault, rng: Random) -> None:
        weather = self._world.node.disk.weather
        weather.full = True

        def space() -> None:
            weather.full = False
            self._space_is_back()

        self._world.after(fault.for_us, space)

    def _full_at(self, fault: Fault, rng: Random) -> None:
        """Make the disk full for some kinds of files."""
        world = self._world
        weather = world.node.disk.weather
        kinds = draw_kinds(rng)
        for kind in kinds:
            world.sometimes.met(f"disk full at: {kind}")
        pattern = weather.full_for = full_for(kinds)
        weather.room_for = rng.choice((0, 0, 1, 2, 3, 5, 8))
        world.node.store.is_full = METADATA in kinds

        def space() -> None:
            if weather.full_for is pattern:
                weather.full_for = None
                world.node.store.is_full = False
                self._space_is_back()

        world.after(fault.for_us, space)

    def _space_is_back(self) -> None:
        if self._world.node.is_up:
            observe_refused(self._world)
            Healing(self._world).check()

    def _append_error(self, fault: Fault, rng: Random) -> None:
        self._weather(fault, "append_error", rng.choice((0.05, 0.5)))

    def _sync_error(self, fault: Fault, rng: Random) -> None:
        self._weather(fault, "sync_error", rng.choice((0.05, 0.5)))

    def _read_error(self, fault: Fault, rng: Random) -> None:
        self._weather(fault, "read_error", rng.choice((0.02, 0.2)))

    def _weather(self, fault: Fault, name: str, value: float) -> None:
        weather = self._world.node.disk.weather
        setattr(weather, name, value)
        self._world.after(fault.for_us, lambda: setattr(weather, name, 0.0))
        self._world.needs_restart = True

    def _slow_disk(self, fault: Fault, rng: Random) -> None:
        weather = self._world.node.disk.weather
        weather.sync_us = (50_000, 400_000)
        self._world.after(fault.for_us, lambda: setattr(weather, "sync_us", (100, 2_000)))

    # The clock.

    def _wall_step(self, fault: Fault, rng: Random) -> None:
        self._world.node.clock.step_wall(
            rng.choice((-HOUR_MS, HOUR_MS, 8 * 24 * HOUR_MS, -8 * 24 * HOUR_MS, 2_000, -2_000))
        )

    def _wall_freeze(self, fault: Fault, rng: Random) -> None:
        clock = self._world.node.clock
        clock.freeze_wall()
        self._world.after(fault.for_us, clock.unfreeze_wall)
