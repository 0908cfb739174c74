"""The read models of transactional ids and their coordinator, for operators (KIP-664)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.loads import LoadView


class TransactionView(msgspec.Struct, frozen=True, gc=False):
    """One transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    start_ms: int


class FenceView(msgspec.Struct, frozen=True):
    """A fenced producer, with the client that fenced it and the number of refused requests."""

    producer_id: int
    producer_epoch: int
    cause: str
    at_ms: int
    client_id: str
    client_address: str
    principal: str
    refusals: int


class TransactionDetails(msgspec.Struct, frozen=True):
    """A transactional id with all its fields. `partitions` are those of the transaction that have
    no marker yet. `time_left_ms` is the rest of the timeout. It is None without an open
    transaction, and if the transaction has no timeout."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    start_ms: int
    time_left_ms: int | None
    partitions: tuple[TopicPartition, ...]
    client_id: str
    client_address: str
    principal: str
    fences: tuple[FenceView, ...]


class TransactionTotals(msgspec.Struct, frozen=True):
    """Sums over the transactional ids of one coordinator. `oldest_start_ms` is the start of the
    oldest undecided transaction, None without one. `oldest_decision_ms` is the time of the oldest
    decision with an incomplete transaction, None without one. `unappended`: number of decided
    transactions that have all their markers, but no completion record in the log yet."""

    by_state: Mapping[TransactionState, int]
    two_phase: int
    oldest_start_ms: int | None
    oldest_decision_ms: int | None
    markers_pending: int
    markers_without_leader: int
    unappended: int


class TransactionOutcomes(msgspec.Struct, frozen=True):
    """Counters since the start. Counters by cause have an entry for every cause of a fence.
    `aborted_by_cause` are aborts that the producer did not request."""

    committed: int
    aborted: int
    aborted_by_cause: Mapping[str, int]
    fenced: Mapping[str, int]
    refused: Mapping[str, int]
    refused_unknown: int
    loads: LoadView
