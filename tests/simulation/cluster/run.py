"""Runs the simulation of a cluster with one seed, and returns the verdict."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from tests.simulation.cluster.judgement import ClusterJudgement
from tests.simulation.cluster.options import DURATIONS_US, ClusterOptions, draw_cluster_options
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.fault import Fault, draw_faults
from tests.simulation.final_checks import check_size
from tests.simulation.run import Verdict, judged


def options_of(seed: int) -> ClusterOptions:
    return draw_cluster_options(Random(f"{seed}/cluster options"))


def faults_of(seed: int) -> list[Fault]:
    return draw_faults(Random(f"{seed}/cluster faults"), options_of(seed), DURATIONS_US)


def run_seed(
    seed: int, *, without: Collection[int] = (), kind: type[ClusterWorld] = ClusterWorld
) -> Verdict:
    """Run a seed. `without`: numbers of faults to leave out."""
    faults = [fault for fault in faults_of(seed) if fault.number not in without]
    return run_cluster(seed, options_of(seed), faults, kind=kind)


def run_cluster(
    seed: int,
    options: ClusterOptions,
    faults: list[Fault],
    *,
    kind: type[ClusterWorld] = ClusterWorld,
) -> Verdict:
    """Run a cluster with these options and faults. All other random choices depend on the seed."""

    async def whole(world: ClusterWorld) -> None:
        await world.live(faults)
        await ClusterJudgement(world).pass_on()
        check_size(world)

    return judged(
        seed, options, faults, lambda loop, capture: kind(seed, options, loop, capture), whole
    )
