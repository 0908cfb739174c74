"""The kinds of simulated worlds: a single broker, or a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.simulation import run
from tests.simulation.cluster import run as cluster_run
from tests.simulation.cluster.sometimes import STATES as CLUSTER_STATES
from tests.simulation.fault import Fault
from tests.simulation.sometimes import STATES


class Kind(NamedTuple):
    """`option`: the option of the command line. `states`: the rare states that a long run must
    meet."""

    option: str
    run_seed: Callable[..., run.Verdict]
    faults_of: Callable[[int], list[Fault]]
    states: tuple[str, ...]


LONE: Final = Kind("", run.run_seed, run.faults_of, STATES)
CLUSTER: Final = Kind(" --cluster", cluster_run.run_seed, cluster_run.faults_of, CLUSTER_STATES)
