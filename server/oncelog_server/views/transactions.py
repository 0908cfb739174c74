"""What operators see of transactional ids and their coordinator (KIP-664)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.loads import LoadView


class TransactionView(msgspec.Struct, frozen=True, gc=False):
    """One row of a list."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    start_ms: int


class FenceView(msgspec.Struct, frozen=True):
    """A producer that was fenced, by which client, and how often it came back."""

    producer_id: int
    producer_epoch: int
    cause: str
    at_ms: int
    client_id: str
    client_address: str
    refusals: int


class TransactionDetails(msgspec.Struct, frozen=True):
    """One transactional id in full. `partitions` are those that wait for a marker, or will.
    `time_left_ms` is None if the transaction has no timeout or is decided."""

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
    fences: tuple[FenceView, ...]


class TransactionTotals(msgspec.Struct, frozen=True):
    """Sums over the transactional ids of one coordinator. `oldest_start_ms` is of undecided
    transactions, None without one. `unappended`: decided, all markers written, completion not yet
    appended."""

    by_state: Mapping[TransactionState, int]
    two_phase: int
    oldest_start_ms: int | None
    markers_pending: int
    markers_without_leader: int
    unappended: int


class TransactionOutcomes(msgspec.Struct, frozen=True):
    """Counters since the start. Those by cause have every cause of a fence, by its name.
    `aborted_by_cause` are aborts that the producer did not ask for."""

    committed: int
    aborted: int
    aborted_by_cause: Mapping[str, int]
    fenced: Mapping[str, int]
    refused: Mapping[str, int]
    refused_unknown: int
    loads: LoadView
