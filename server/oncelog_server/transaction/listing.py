"""Transactional ids as an operator sees them: one in full, or those that pass a filter (KIP-664,
KIP-994, KIP-1152)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oncelog_protocol.messages import describe_transactions as described
from oncelog_protocol.messages import list_transactions as listed
from oncelog_protocol.pattern import Pattern
from oncelog_server.transaction.shard import LiveTransaction
from oncelog_server.transaction.states import State

STATES_BY_NAME = {state.kafka_name: state for state in State}


class TransactionFilter(NamedTuple):
    """Which ids to list; an empty set lets all through, as does a duration below 0. `states` are
    those among the asked-for names that exist, so that `None` is for all and an empty one for
    none."""

    states: frozenset[State] | None = None
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    pattern: Pattern | None = None


def list_transactions(
    lives: Iterable[LiveTransaction], wanted: TransactionFilter, *, wall_ms: int
) -> Iterator[listed.TransactionState]:
    """Raises PatternError if the pattern costs too much."""
    for live in lives:
        metadata = live.metadata
        if (
            live.is_listed
            and (wanted.states is None or metadata.state in wanted.states)
            and (not wanted.producer_ids or metadata.producer_id in wanted.producer_ids)
            and (wanted.longer_than_ms < 0 or wall_ms - metadata.start_ms > wanted.longer_than_ms)
            and (wanted.pattern is None or wanted.pattern.matches(metadata.transactional_id))
        ):
            yield listed.TransactionState(
                metadata.transactional_id, metadata.producer_id, metadata.state.kafka_name
            )


def describe_transaction(live: LiveTransaction, *, now_ms: int) -> described.TransactionState:
    """`now_ms` is monotonic. The partitions are those that wait for a marker, or will."""
    metadata = live.metadata
    partitions = live.markers_left if metadata.is_prepared else metadata.partitions
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    state = described.TransactionState(
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.kafka_name,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[described.TopicData(topic, of_topic) for topic, of_topic in topics.items()],
    )
    may_expire = metadata.state is State.ONGOING and not metadata.is_two_phase
    if may_expire and live.deadline_ms is not None:
        state.time_left_ms = max(live.deadline_ms - now_ms, 0)
    if live.client is not None:
        state.client_id, state.client_address = live.client
    state.fences = [
        described.FenceData(
            fence.producer_id,
            fence.producer_epoch,
            fence.label,
            fence.at_ms,
            *(fence.by or ("", "")),
            fence.refusals,
        )
        for fence in live.fences
    ]
    return state
