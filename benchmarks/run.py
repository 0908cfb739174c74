"""Runs the rounds of a benchmark. All brokers warm up on each load, then take turns, first pinned
to one core and then on all cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import MB, Bench, Cores, Figures, Pace, Round
from benchmarks.lifecycle import GROWTH, measure_growth, measure_start
from benchmarks.loads import LOADS, LOADS_OF
from benchmarks.musts import PINNED, UNPINNED
from benchmarks.setups import PLAIN, Setup
from benchmarks.table import agree
from benchmarks.targets import Makers, Target, running

START = "start"
MEMORY = "memory"

Measured = dict[str, dict[str, list[Figures]]]
"""The figures of each round, by load and broker."""


@dataclass(frozen=True, slots=True)
class Place:
    """The cores of the broker and of the load."""

    name: str
    broker: Cores
    load: Cores


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run. `warm_s`: the maximum warm-up of a broker by one load in the first place.
    `again_s`: the same in each further place. A warm-up ends earlier if three rounds agree."""

    targets: Makers
    loads: list[str]
    places: list[Place]
    pace: Pace
    rounds: int
    warm_s: float
    again_s: float
    say: Callable[[str], None]


def places(names: Sequence[str]) -> list[Place]:
    """Return the places with these names. In the pinned place the broker runs on the first core and
    the load on the second. Raises UnfitMachine for a pinned place on a computer with one core."""
    cores = sorted(machine.all_cores())
    if PINNED in names and len(cores) < 2:
        raise machine.UnfitMachine("two cores are needed: one for a broker, one for the load")
    every = {
        PINNED: Place(PINNED, set(cores[:1]), set(cores[1:2])),
        UNPINNED: Place(UNPINNED, set(cores), set(cores)),
    }
    return [every[name] for name in names]


def run(plan: Plan, folder: Path) -> dict[str, Measured]:
    """Run all loads of the plan in all its places. Run the loads of GROWTH (many partitions, for
    example) only in the first place. Return the figures by place."""
    measured: dict[str, Measured] = {place.name: {} for place in plan.places}
    for place in plan.places:
        if START in plan.loads:
            plan.say(f"{place.name}: start")
            found = measure_start(plan.targets, folder / place.name, place.broker, plan.rounds)
            measured[place.name][START] = found
    for setup, loads in LOADS_OF.items():
        names = [name for name in plan.loads if name in loads]
        if names:
            _run_loads(plan, setup, names, folder / setup.name, measured)
    place = plan.places[0]
    for name in [name for name in plan.loads if name in GROWTH]:
        plan.say(f"{place.name}: {name}")
        measured[place.name][name] = measure_growth(
            name, plan.targets, folder / place.name, plan.pace, place.broker, place.load
        )
    return measured


def _run_loads(
    plan: Plan, setup: Setup, names: list[str], folder: Path, measured: dict[str, Measured]
) -> None:
    with running(plan.targets, folder, machine.all_cores(), setup) as targets:
        for name in names:
            _run_load(plan, name, targets, folder, measured)
        if setup is PLAIN and MEMORY in plan.loads:
            loaded = {
                target.name: [{"loaded_mb": machine.resident_bytes(target.pid) / MB}]
                for target in targets
            }
            for place in plan.places:
                measured[place.name][MEMORY] = loaded


def _run_load(
    plan: Plan, name: str, targets: list[Target], folder: Path, measured: dict[str, Measured]
) -> None:
    with ExitStack() as shares:
        turns = [
            (target, shares.enter_context(LOADS[name](Bench(target, plan.pace, folder))))
            for target in targets
        ]
        for place, limit_s in zip(plan.places, [plan.warm_s, plan.again_s], strict=False):
            for target, turn in turns:
                machine.pin(target.pid, place.broker)
                _warm(plan, f"{place.name}: {name}: {target.name}", turn, place.load, limit_s)
            found: dict[str, list[Figures]] = {target.name: [] for target in targets}
            for number in range(plan.rounds):
                # The first broker in one round is the last in the next, so that a drift of the
                # computer affects all brokers.
                for target, turn in turns if number % 2 == 0 else reversed(turns):
                    found[target.name].append(turn(place.load))
            measured[place.name][name] = found
            for target in targets:
                plan.say(f"{place.name}: {name}: {target.name}: {_paces(found[target.name])}")


def _warm(plan: Plan, what: str, turn: Round, cores: Cores, limit_s: float) -> None:
    """Repeat the load until three rounds agree, or until `limit_s` has passed."""
    values: list[float] = []
    spent = 0.0
    while spent < limit_s and not agree(values):
        begin = time.monotonic()
        values.append(next(iter(turn(cores).values())))
        spent += time.monotonic() - begin
    if values:
        plan.say(
            f"{what}: warm after {spent:.0f} s: {' '.join(f'{value:,.0f}' for value in values)}"
        )


def _paces(rounds: list[Figures]) -> str:
    return " ".join(f"{next(iter(figures.values())):,.0f}" for figures in rounds)
