"""Runs the rounds of the benchmarks of clusters. Both clusters run all the time, and take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.bench import MB, Figures
from benchmarks.cluster.clusters import HEARTBEAT, SESSION, Cluster, kafka, oncelog
from benchmarks.cluster.faults import FAULTS, SHORT_SESSION
from benchmarks.cluster.loads import LOADS, OFFERED, Bench, Load
from benchmarks.run import MEMORY, START, Measured, Place
from benchmarks.targets import KAFKA, ONCELOG
from benchmarks.turns import Say, paces, take_turns, warm

IDLE_S: Final = 5.0
# The offered load if the run does not measure the maximum.
OFFERED_PER_S: Final = 1_000.0
SHORT: Final = {SESSION: "2000", HEARTBEAT: "500"}
ALL_LOADS: Final = (START, *LOADS, *FAULTS, MEMORY, *SHORT_SESSION)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run. `rounds`: the number of rounds of a load; `faults`: the same for a load
    that ends a broker. `warm_s`: the maximum warm-up of a cluster by one load. `members`: those of
    etcd. `max_bytes`: the most that a round writes. `partitions`: the number of partitions in a
    load with many. Only the first of the places has the loads that end a broker."""

    targets: Sequence[str]
    loads: Sequence[str]
    places: Sequence[Place]
    seconds: float
    max_bytes: int
    partitions: int
    rounds: int
    faults: int
    warm_s: float
    members: int
    say: Say


def run(plan: Plan, folder: Path) -> dict[str, Measured]:
    """Run all loads of the plan. Return the figures by place."""
    measured: dict[str, Measured] = {place.name: {} for place in plan.places}
    first = plan.places[0]
    with _running(plan, folder / "default", {}) as clusters:
        if START in plan.loads:
            time.sleep(IDLE_S)
            measured[first.name][START] = _memory(clusters, "idle_mb")
        for name in [name for name in LOADS if name in plan.loads]:
            for place in plan.places:
                found = _healthy(plan, name, clusters, folder, place, measured)
                measured[place.name][name] = found
        _end_brokers(plan, FAULTS, clusters, folder, measured)
        if MEMORY in plan.loads:
            measured[first.name][MEMORY] = _memory(clusters, "loaded_mb")
    if set(SHORT_SESSION) & set(plan.loads):
        with _running(plan, folder / "short", SHORT) as clusters:
            _end_brokers(plan, SHORT_SESSION, clusters, folder, measured)
    return measured


@contextmanager
def _running(plan: Plan, folder: Path, settings: Mapping[str, str]) -> Iterator[list[Cluster]]:
    """Start the clusters of the plan, on the cores of its first place."""
    cores = plan.places[0].broker
    with ExitStack() as started:
        clusters = []
        if KAFKA in plan.targets:
            clusters.append(started.enter_context(kafka(folder, cores, settings)))
        if ONCELOG in plan.targets:
            made = oncelog(folder, cores, settings, plan.members)
            clusters.append(started.enter_context(made))
        yield clusters


def _healthy(
    plan: Plan,
    name: str,
    clusters: Sequence[Cluster],
    folder: Path,
    place: Place,
    measured: Mapping[str, Measured],
) -> dict[str, list[Figures]]:
    offered = _offered(measured[place.name])
    with ExitStack() as shares:
        turns = {
            cluster.name: shares.enter_context(
                LOADS[name](_bench(plan, cluster, folder, offered_per_s=offered))
            )
            for cluster in clusters
        }
        for cluster in clusters:
            cluster.pin(place.broker)
            what = f"{place.name}: {name}: {cluster.name}"
            warm(plan.say, what, turns[cluster.name], place.load, plan.warm_s)
        found = take_turns(turns, plan.rounds, place.load)
    for cluster_name, rounds in found.items():
        plan.say(f"{place.name}: {name}: {cluster_name}: {paces(rounds)}")
    return found


def _end_brokers(
    plan: Plan,
    loads: Mapping[str, Load],
    clusters: Sequence[Cluster],
    folder: Path,
    measured: Mapping[str, Measured],
) -> None:
    place = plan.places[0]
    for cluster in clusters:
        cluster.pin(place.broker)
    for name in [name for name in loads if name in plan.loads]:
        with ExitStack() as shares:
            turns = {
                cluster.name: shares.enter_context(loads[name](_bench(plan, cluster, folder)))
                for cluster in clusters
            }
            found = take_turns(turns, plan.faults, place.load)
        measured[place.name][name] = found
        for cluster_name, rounds in found.items():
            plan.say(f"{place.name}: {name}: {cluster_name}: {paces(rounds)}")


def _bench(
    plan: Plan, cluster: Cluster, folder: Path, *, offered_per_s: float = OFFERED_PER_S
) -> Bench:
    return Bench(cluster, folder, plan.seconds, plan.max_bytes, plan.partitions, offered_per_s)


def _offered(measured: Measured) -> float:
    """Return the offered load (messages/s): a share of the slower cluster's maximum."""
    small = measured.get("small")
    if small is None:
        return OFFERED_PER_S
    return OFFERED * min(
        statistics.median(figures["per_s"] for figures in rounds) for rounds in small.values()
    )


def _memory(clusters: Sequence[Cluster], figure: str) -> dict[str, list[Figures]]:
    return {cluster.name: [{figure: cluster.resident_bytes() / MB}] for cluster in clusters}
