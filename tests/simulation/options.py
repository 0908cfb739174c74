"""The options of a world (one simulated run), drawn from its seed, so that different seeds test
different combinations (swarm testing)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.simulation.loop import Scheduling

# Kinds of faults. A run is divided into periods, and a quarter of the periods has no fault.
FAULT_KINDS: Final = (
    "kill",
    "kill-inside",
    "stop",
    "pause",
    "pause-client",
    "kill-client",
    "reset",
    "vanish",
    "hold",
    "full",
    "append-error",
    "sync-error",
    "read-error",
    "slow-disk",
    "wall-step",
    "wall-freeze",
)
# More kinds of faults, for worlds that sync records before the acknowledgment, and for a fifth of
# the other worlds.
POWER_KINDS: Final = ("power", "power-inside")

# A world with fewer transactions proves too little and counts as failed.
LEAST_TRANSACTIONS: Final = 50


@dataclass(slots=True)
class Options:
    """The options. Times are in ms unless the name says otherwise."""

    scheduling: Scheduling
    step_us: int
    flush_on_ack: bool
    latency_us: tuple[int, int]
    segmentation: float
    coalescing: float
    clogging: float
    small_window: bool
    # The probability that a client's frame is sent again on another connection, and the delay in
    # us.
    replaying: float
    replay_after_us: tuple[int, int]
    drift_ppm: int
    segment_bytes: int
    index_interval_bytes: int
    transaction_partitions: int
    offsets_partitions: int
    topic_partitions: int
    transaction_timeout_ms: int
    checkpoint_ms: int
    flush_ms: int | None
    cleaner_backoff_ms: int
    cleanable_ratio: float
    periods: int
    period_us: int
    faults_per_period: int
    kinds: tuple[str, ...]
    damage: float
    loss_ordered: bool
    loss_holes: float
    workloads: dict[str, int] = field(default_factory=dict)
    transactions: int = 20
    delivery_timeout_ms: int = 2_000
    max_block_ms: int = 2_500
    # A factor of the pauses of clients.
    pace: float = 1.0

    @property
    def is_lossy(self) -> bool:
        """Return True if the power may fail and the broker acknowledges records before a sync. The
        records that a power loss leaves then only have to be consistent."""
        return not self.flush_on_ack and any(kind in POWER_KINDS for kind in self.kinds)


def draw_options(rng: Random) -> Options:
    scheduling = rng.choices(list(Scheduling), weights=[3, 3, 2, 1, 1])[0]
    low = rng.choice((20, 50, 200))
    flush_on_ack = rng.random() < 0.5
    kinds = [kind for kind in FAULT_KINDS if rng.random() < 0.5]
    if flush_on_ack or rng.random() < 0.2:
        kinds += [kind for kind in POWER_KINDS if rng.random() < 0.7]
    return Options(
        scheduling=scheduling,
        step_us=rng.choice((1, 5, 20)),
        flush_on_ack=flush_on_ack,
        latency_us=(low, low + rng.choice((50, 500, 3_000))),
        segmentation=rng.choice((0.0, 0.1, 0.5)),
        coalescing=rng.choice((0.0, 0.5, 1.0)),
        clogging=rng.choice((0.0, 0.0, 0.002, 0.01)),
        small_window=rng.random() < 0.2,
        replaying=rng.choice((0.0, 0.0, 0.05, 0.2)),
        replay_after_us=(100, rng.choice((1_000, 50_000, 2_000_000))),
        drift_ppm=rng.choice((0, 0, -200, 200)),
        segment_bytes=rng.choice((400, 1_000, 4_000, 1 << 20)),
        index_interval_bytes=rng.choice((1, 200, 4_096)),
        transaction_partitions=rng.choice((1, 2, 3)),
        offsets_partitions=rng.choice((1, 2)),
        topic_partitions=rng.choice((1, 2, 3)),
        transaction_timeout_ms=rng.choice((400, 1_500, 3_000)),
        checkpoint_ms=rng.choice((300, 2_000, 60_000)),
        flush_ms=rng.choice((None, 100, 1_000)),
        cleaner_backoff_ms=rng.choice((50, 500, 15_000)),
        cleanable_ratio=rng.choice((0.05, 0.5)),
        periods=rng.choice((2, 3, 4)),
        period_us=rng.choice((300_000, 700_000, 1_500_000)),
        faults_per_period=rng.choice((1, 2, 3)),
        kinds=tuple(kinds),
        damage=rng.choice((0.0, 0.5)),
        loss_ordered=rng.random() < 0.5,
        loss_holes=rng.choice((0.0, 0.3)),
        workloads=draw_workloads(rng),
        transactions=rng.choice((12, 20, 30)),
    )


def draw_workloads(rng: Random) -> dict[str, int]:
    """Draw the number of clients of each kind."""
    drawn = {
        "append": rng.choice((1, 2, 2)),
        "reader": 1,
        "copy": rng.choice((0, 0, 1, 2)),
        "money": rng.choice((0, 1)),
        "pipelined-v2": rng.choice((0, 1, 2)),
        "pipelined-v1": rng.choice((0, 1)),
        "hijack": rng.choice((0, 0, 1)),
        "plain": rng.choice((0, 1)),
        "table": rng.choice((0, 0, 1)),
        "two-phase": rng.choice((0, 0, 1)),
        "group-commit": rng.choice((0, 0, 1)),
        "churn": rng.choice((0, 0, 1)),
    }
    return {name: count for name, count in drawn.items() if count}


def draw_rights(rng: Random, options: Options) -> None:
    """Add a client with changing rights to a third of the worlds. The broker of such a world has an
    authorizer. The client has its own random generator, so that it does not change the other
    options of a seed."""
    if rng.random() < 1 / 3:
        options.workloads["rights"] = 1
