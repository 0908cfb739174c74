"""Runs the simulation with one seed, and returns the verdict."""

from __future__ import annotations

import asyncio
import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from tests.simulation.base_world import BaseWorld
from tests.simulation.client_time import simulated_client_time
from tests.simulation.fault import Fault, draw_faults
from tests.simulation.faults import draw_full_disks
from tests.simulation.judgement import Judgement
from tests.simulation.log_capture import LogCapture, captured
from tests.simulation.loop import SimLoop
from tests.simulation.options import Options, draw_options, draw_rights
from tests.simulation.world import World

W = TypeVar("W", bound=BaseWorld)

FEW_COMMITS: Final = 10


@dataclass(slots=True)
class Verdict:
    """The result of a seed. `trace`: equal for equal runs. `seconds`: CPU time. `simulated_s`: time
    of the simulated clock."""

    seed: int
    trace: int = 0
    violations: list[str] = field(default_factory=list)
    transactions: int = 0
    committed: int = 0
    simulated_s: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    inflicted: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    options: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.violations)

    @property
    def is_vacuous(self) -> bool:
        """Return True if the world has committed too few transactions to prove anything."""
        return self.committed < FEW_COMMITS


def options_of(seed: int) -> Options:
    options = draw_options(Random(f"{seed}/options"))
    draw_rights(Random(f"{seed}/rights"), options)
    return options


def faults_of(seed: int) -> list[Fault]:
    options = options_of(seed)
    found = draw_faults(Random(f"{seed}/faults"), options)
    return [*found, *draw_full_disks(Random(f"{seed}/full at"), options, len(found))]


def run_seed(seed: int, *, without: Collection[int] = (), kind: type[World] = World) -> Verdict:
    """Run a seed. `without`: numbers of faults to leave out."""
    faults = [fault for fault in faults_of(seed) if fault.number not in without]
    return run_world(seed, options_of(seed), faults, kind=kind)


def run_world(
    seed: int, options: Options, faults: list[Fault], *, kind: type[World] = World
) -> Verdict:
    """Run a world with these options and faults. All other random choices depend on the seed."""

    async def whole(world: World) -> None:
        await world.live(faults)
        await Judgement(world).pass_on()

    return judged(
        seed, options, faults, lambda loop, capture: kind(seed, options, loop, capture), whole
    )


def judged(
    seed: int,
    options: Options,
    faults: list[Fault],
    new_world: Callable[[SimLoop, LogCapture], W],
    whole: Callable[[W], Coroutine[Any, Any, None]],
) -> Verdict:
    """Make a world and run `whole` in simulated time. Return the verdict."""
    loop = SimLoop(seed, options.scheduling, step_us=options.step_us)
    capture = LogCapture(lambda: loop.now_us)
    started = time.process_time()
    collecting = gc.isenabled()
    gc.disable()
    asyncio.set_event_loop(loop)
    try:
        with captured(capture), simulated_client_time(loop, seed):
            world = new_world(loop, capture)
            try:
                loop.run_until_complete(whole(world))
            except Exception as error:
                world.violate("".join(traceback.format_exception(error)))
        verdict = Verdict(
            seed,
            trace=loop.trace,
            violations=world.violations,
            transactions=world.recorder.transactions,
            committed=world.recorder.committed,
            simulated_s=loop.now_us / 1e6,
            steps=loop.steps,
            inflicted=world.inflicted,
            met=world.sometimes.counts,
            faults=list(map(str, faults)),
            events=list(capture.lines()),
            options=str(options),
        )
        world.bury()
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        if collecting:
            gc.enable()
    verdict.seconds = time.process_time() - started
    return verdict
