"""The options of a simulated cluster, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Final

from tests.simulation.options import Options, draw_options

# The kinds of faults of a cluster (`faults.py`).
FAULT_KINDS: Final = (
    "kill",
    "kill-two",
    "kill-all",
    "kill-inside",
    "kill-uncommitted",
    "pause-uncommitted",
    "isolate-uncommitted",
    "flap",
    "roll",
    "stop",
    "pause",
    "pause-two",
    "isolate",
    "pair",
    "minority",
    "one-way",
    "refuse",
    "etcd-only",
    "peers-only",
    "etcd-silent",
    "etcd-slow",
    "etcd-lost",
    "etcd-lag",
    "etcd-compact",
    "etcd-leaderless",
    "etcd-kill",
    "etcd-lease",
    "power",
    "power-inside",
    "reset",
    "vanish",
    "hold",
    "slow-disk",
    "pause-client",
    "kill-client",
    "wall-step",
    "skew",
)
# With these faults one leader after the other loses its leadership while it has records that no
# other broker has. The logs then differ.
STORM_KINDS: Final = (
    "kill-uncommitted",
    "pause-uncommitted",
    "isolate-uncommitted",
    "power",
    "power-inside",
    "kill-inside",
    "kill-two",
    "flap",
    "etcd-lost",
)
# Only if records are on disk before the acknowledgment.
FLUSHED_KINDS: Final = ("power-all", "power-two")
# Up to three sessions.
DURATIONS_US: Final = (50_000, 600_000, 2_500_000, 7_000_000)
# The longer the latency, the more requests are in flight at a fault.
LATENCIES_US: Final = ((20, 500), (200, 5_000), (2_000, 20_000))
# etcd grants no shorter lease.
SESSION_MS: Final = 2_000


@dataclass(slots=True)
class ClusterOptions(Options):
    """The options. Topics have a replica on each of three brokers, and a min ISR of 2."""

    brokers: int = 3
    etcd_members: int = 1
    heartbeat_ms: int = 500
    # replica.lag.time.max.ms
    lag_ms: int = 2_000
    fetch_wait_ms: int = 100
    # The probability that the exit monitor of a killed broker ends its registration.
    exit_monitors: float = 0.0

    @property
    def is_lossy(self) -> bool:
        """Return False: no power loss hits a broker while another broker has not recovered from
        one, unless records are on disk before the acknowledgment."""
        return False


def draw_cluster_options(rng: Random) -> ClusterOptions:
    alone = draw_options(rng)
    options = ClusterOptions(**{field.name: getattr(alone, field.name) for field in fields(alone)})
    kinds = [kind for kind in FAULT_KINDS if rng.random() < 0.5]
    if options.flush_on_ack:
        kinds += [kind for kind in FLUSHED_KINDS if rng.random() < 0.5]
    options.kinds = tuple(kinds)
    options.brokers = rng.choice((3, 3, 3, 3, 5))
    options.etcd_members = rng.choice((1, 3))
    options.heartbeat_ms = rng.choice((200, 500))
    options.lag_ms = rng.choice((500, 2_000, 10_000))
    options.fetch_wait_ms = rng.choice((100, 500))
    options.periods = rng.choice((2, 3))
    options.period_us = rng.choice((3_000_000, 5_000_000))
    options.faults_per_period = rng.choice((1, 2, 3, 4))
    options.segment_bytes = rng.choice((1_000, 4_000, 1 << 20, 1 << 20))
    options.topic_partitions = rng.choice((1, 2, 3))
    options.transaction_timeout_ms = rng.choice((1_500, 4_000))
    options.delivery_timeout_ms = rng.choice((2_000, 8_000))
    options.max_block_ms = 8_000
    options.pace = rng.choice((20.0, 50.0))
    options.latency_us = rng.choice(LATENCIES_US)
    options.replaying = 0.0
    if rng.random() < 0.4:
        options.kinds = STORM_KINDS
        options.faults_per_period = 8
        options.period_us = 5_000_000
    options.workloads = draw_workloads(rng)
    options.transactions = rng.choice((15, 25))
    options.exit_monitors = rng.choice((0.0, 0.5, 1.0))
    return options


def draw_workloads(rng: Random) -> dict[str, int]:
    drawn = {
        "append": rng.choice((1, 2, 2)),
        "reader": 1,
        "copy": rng.choice((0, 1, 2)),
        "money": rng.choice((0, 1)),
        "plain": rng.choice((1, 2)),
        "group-commit": rng.choice((0, 1)),
    }
    return {name: count for name, count in drawn.items() if count}
