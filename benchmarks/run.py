"""Runs the rounds of a benchmark. All brokers warm up on each load, then take turns, first pinned
to one core and then on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import MB, Bench, Cores, Figures, Pace
from benchmarks.lifecycle import GROWTH, measure_growth, measure_start
from benchmarks.loads import LOADS, LOADS_OF
from benchmarks.musts import PINNED, UNPINNED
from benchmarks.setups import PLAIN, Setup
from benchmarks.targets import Makers, Target, running
from benchmarks.turns import paces, take_turns, warm

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
    """The plan of a run. `warm_s`: the maximum warm-up of a broker by one load in the first of the
    places. `again_s`: the same in each further place. A warm-up ends earlier if three rounds
    agree."""

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
    example) only in the first of the places. Return the figures by place."""
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
        turns = {
            target.name: shares.enter_context(LOADS[name](Bench(target, plan.pace, folder)))
            for target in targets
        }
        for place, limit_s in zip(plan.places, [plan.warm_s, plan.again_s], strict=False):
            for target in targets:
                machine.pin(target.pid, place.broker)
                what = f"{place.name}: {name}: {target.name}"
                warm(plan.say, what, turns[target.name], place.load, limit_s)
            found = take_turns(turns, plan.rounds, place.load)
            measured[place.name][name] = found
            for broker, rounds in found.items():
                plan.say(f"{place.name}: {name}: {broker}: {paces(rounds)}")
