"""Metrics of the two coordinators: transactional ids and markers, groups and offsets, load
times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_server.group.views import GroupViews
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import Metric, as_work
from oncelog_server.transaction.views import TransactionViews
from oncelog_server.views.loads import LoadView
from oncelog_server.views.transactions import TransactionOutcomes

CLIENT: Final = "client"
UNKNOWN: Final = "unknown"


def transaction_lines(views: TransactionViews, wall_ms: int) -> Iterator[str]:
    totals = yield from as_work(views.totals())
    yield metrics.TRANSACTIONAL_IDS.head()
    for state, count in totals.by_state.items():
        yield metrics.TRANSACTIONAL_IDS.line(count, state.kafka_name)
    yield from metrics.OLDEST_TRANSACTION.only(_age_s(totals.oldest_start_ms, wall_ms))
    yield from metrics.TWO_PHASE_TRANSACTIONS.only(totals.two_phase)
    yield from metrics.OLDEST_DECISION.only(_age_s(totals.oldest_decision_ms, wall_ms))
    yield from metrics.MARKERS_PENDING.only(totals.markers_pending)
    yield from metrics.UNKNOWN_DESTINATION.only(totals.markers_without_leader)
    yield from metrics.UNAPPENDED.only(totals.unappended)
    outcomes = views.outcomes()
    yield from _outcome_lines(outcomes)
    yield from _load_lines(
        outcomes.loads, metrics.TRANSACTION_LOAD_MAX, metrics.TRANSACTION_LOAD_AVERAGE
    )


def _age_s(since_ms: int | None, wall_ms: int) -> float:
    return 0 if since_ms is None else max(wall_ms - since_ms, 0) / 1000


def _outcome_lines(outcomes: TransactionOutcomes) -> Iterator[str]:
    metric = metrics.TRANSACTIONS
    asked_for = outcomes.aborted - sum(outcomes.aborted_by_cause.values())
    yield metric.head()
    yield metric.line(outcomes.committed, "commit", CLIENT)
    yield metric.line(max(asked_for, 0), "abort", CLIENT)
    for cause, count in outcomes.aborted_by_cause.items():
        yield metric.line(count, "abort", cause)
    yield metrics.FENCED.head()
    for cause, count in outcomes.fenced.items():
        yield metrics.FENCED.line(count, cause)
    yield metrics.REFUSED.head()
    for cause, count in outcomes.refused.items():
        yield metrics.REFUSED.line(count, cause)
    yield metrics.REFUSED.line(outcomes.refused_unknown, UNKNOWN)


def group_lines(views: GroupViews) -> Iterator[str]:
    totals = yield from as_work(views.totals())
    yield from metrics.GROUPS.only(sum(totals.by_state.values()))
    for state, metric in metrics.GROUPS_IN.items():
        yield from metric.only(totals.by_state[state])
    yield from metrics.GROUP_OFFSETS.only(totals.offsets)
    yield from _load_lines(totals.loads, metrics.GROUP_LOAD_MAX, metrics.GROUP_LOAD_AVERAGE)


def _load_lines(times: LoadView, longest: Metric, average: Metric) -> Iterator[str]:
    yield from longest.only(times.longest_ms)
    yield from average.only(times.average_ms)
