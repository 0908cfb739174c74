"""A fault of a simulation run, and its time. The list is drawn before the run, so that leaving out
a fault does not change the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.simulation.options import Options

DURATIONS_US: Final = (5_000, 100_000, 600_000, 2_000_000)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. `seed`: for random choices during the fault. `number`: the fault's number for
    `--without` on the command line."""

    number: int
    at_us: int
    kind: str
    for_us: int
    seed: int

    def __str__(self) -> str:
        return f"{self.number}: {self.at_us / 1e6:.3f} s {self.kind} ({self.for_us / 1e6:.3f} s)"


def draw_faults(
    rng: Random, options: Options, durations_us: Sequence[int] = DURATIONS_US
) -> list[Fault]:
    """Return the faults in the order of their times. The run is divided into periods of equal
    length. On average a quarter of the periods has no fault. A fault takes at most one
    of `durations_us`."""
    found = []
    for period in range(options.periods):
        if not options.kinds or rng.random() < 0.25:
            continue
        for _ in range(rng.randint(1, options.faults_per_period)):
            at_us = period * options.period_us + rng.randrange(options.period_us)
            for_us = rng.choice(durations_us)
            kind = rng.choice(options.kinds)
            found.append((at_us, kind, rng.randint(1_000, for_us), rng.getrandbits(32)))
    return [Fault(number, *moment) for number, moment in enumerate(sorted(found))]
