"""Metrics of the two coordinators: transactional ids and markers, groups and offsets, load
times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.coordinator.load_times import LoadTimes
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.observe import metrics
from oncelog_server.observe.exposition import WORK, Metric
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.shard import TransactionShard

CLIENT: Final = "client"
UNKNOWN: Final = "unknown"


def transaction_lines(coordinator: TransactionCoordinator, wall_ms: int) -> Iterator[str]:
    states: Counter[TransactionState] = Counter()
    two_phase = markers = unreachable = unappended = 0
    oldest_ms = wall_ms
    for _, shard in coordinator.runtime.shards():
        states.update([live.metadata.state for live in shard.transactions.values()])
        two_phase += sum(live.metadata.is_two_phase for live in shard.ongoing.values())
        oldest_ms = min(oldest_ms, _oldest_start_ms(shard))
        for live in list(shard.prepared.values()):
            markers += len(live.markers_left)
            unappended += not live.markers_left
            for partition in list(live.markers_left):
                unreachable += not coordinator.has_leader(partition)
                yield WORK
        yield WORK
    yield metrics.TRANSACTIONAL_IDS.head()
    for state in TransactionState:
        yield metrics.TRANSACTIONAL_IDS.line(states[state], state.kafka_name)
    yield from metrics.OLDEST_TRANSACTION.only((wall_ms - oldest_ms) / 1000)
    yield from metrics.TWO_PHASE_TRANSACTIONS.only(two_phase)
    yield from metrics.MARKERS_PENDING.only(markers)
    yield from metrics.UNKNOWN_DESTINATION.only(unreachable)
    yield from metrics.UNAPPENDED.only(unappended)
    yield from _decision_lines(coordinator)
    yield from _load_lines(
        coordinator.runtime.load_times,
        metrics.TRANSACTION_LOAD_MAX,
        metrics.TRANSACTION_LOAD_AVERAGE,
    )


def _decision_lines(coordinator: TransactionCoordinator) -> Iterator[str]:
    fences = coordinator.fences
    aborted, committed = coordinator.decided
    metric = metrics.TRANSACTIONS
    yield metric.head()
    yield metric.line(committed, "commit", CLIENT)
    yield metric.line(max(aborted - sum(fences.aborted.values()), 0), "abort", CLIENT)
    for cause, count in fences.aborted.items():
        yield metric.line(count, "abort", cause.name.lower())
    yield metrics.FENCED.head()
    for cause, count in fences.fenced.items():
        yield metrics.FENCED.line(count, cause.name.lower())
    yield metrics.REFUSED.head()
    for cause, count in fences.refused.items():
        yield metrics.REFUSED.line(count, cause.name.lower())
    yield metrics.REFUSED.line(fences.refused_unknown, UNKNOWN)


def _oldest_start_ms(shard: TransactionShard) -> int:
    undecided = (live.metadata.start_ms for live in shard.ongoing.values())
    return min((start_ms for start_ms in undecided if start_ms >= 0), default=1 << 62)


def group_lines(coordinator: GroupCoordinator) -> Iterator[str]:
    states: Counter[GroupState] = Counter()
    offsets = 0
    for shard in coordinator.shards():
        states.update([group.state for group in shard.table.groups.values()])
        offsets += shard.table.offsets.committed_count()
        yield WORK
    yield from metrics.GROUPS.only(states.total())
    for state, metric in metrics.GROUPS_IN.items():
        yield from metric.only(states[state])
    yield from metrics.GROUP_OFFSETS.only(offsets)
    yield from _load_lines(
        coordinator.runtime.load_times, metrics.GROUP_LOAD_MAX, metrics.GROUP_LOAD_AVERAGE
    )


def _load_lines(times: LoadTimes, longest: Metric, average: Metric) -> Iterator[str]:
    yield from longest.only(times.longest_ms)
    yield from average.only(times.average_ms)
