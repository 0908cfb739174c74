"""The read models of the transaction coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.partition.registry import Partitions
from oncelog_server.slices import Steps, portions
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import Fence, FenceCause, Fences
from oncelog_server.transaction.listing_error import listing_error
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State
from oncelog_server.views.loads import LoadView
from oncelog_server.views.transactions import (
    FenceView,
    TransactionDetails,
    TransactionOutcomes,
    TransactionTotals,
    TransactionView,
)

_NO_CLIENT: Final = Client("", "")


class TransactionViews:
    """Read models of a coordinator's transactional ids. `decided` has the coordinator's counters of
    aborted and committed transactions. `has_all_shards` returns True if this broker coordinates
    every transactional id of the cluster."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        fences: Fences,
        decided: list[int],
        *,
        find: Callable[[str], LiveTransaction],
        has_leader: Callable[[TopicPartition], bool],
        has_all_shards: Callable[[], bool],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._fences = fences
        self._decided = decided
        self._find = find
        self._has_leader = has_leader
        self.has_all_shards = has_all_shards
        self._monotonic_ms = monotonic_ms

    @property
    def is_loading(self) -> bool:
        """Return True while a part of the transactional ids is loaded and cannot be shown."""
        return self._runtime.is_loading

    def count(self) -> int:
        """Return the number of transactional ids."""
        return sum(len(shard.transactions) for _, shard in self._runtime.shards())

    def all(self) -> Iterator[TransactionView]:
        """Yield the transactional ids that exist at the call. Each view shows the state at its
        yield."""
        lives = [
            live for _, shard in self._runtime.shards() for live in shard.transactions.values()
        ]
        return views_of(lives)

    def listing_error(
        self, image: ClusterImage, broker_id: int, partitions: Partitions
    ) -> ErrorCode:
        """Return NONE if `all` has every id that this broker should list."""
        return listing_error(image, broker_id, partitions, self._runtime)

    def details(self, transactional_id: str) -> TransactionDetails:
        """Return the details of an id. Raises Refused if the id is unknown, or not coordinated
        here."""
        return details_of(self._find(transactional_id), now_ms=self._monotonic_ms())

    def undecided(self) -> Steps[Mapping[int, State]]:
        """Return the states of transactions that are open, or decided but not complete. The keys
        are producer ids. Each state is that of its step, so a transaction that is undecided during
        all steps is in the result."""
        states: dict[int, State] = {}
        for _, shard in self._runtime.shards():
            # In one turn, because a transaction may move from one mapping to the other.
            lives = chain(shard.ongoing.values(), shard.prepared.values())
            for portion in portions(lives):
                for live in portion:
                    states[live.metadata.producer_id] = live.metadata.state
                yield
        return states

    def totals(self) -> Steps[TransactionTotals]:
        """Count all ids. A step handles a portion of the ids of a shard, or one missing marker."""
        states: Counter[State] = Counter()
        two_phase = markers = leaderless = unappended = 0
        oldest_ms: int | None = None
        decided_ms: int | None = None
        for _, shard in self._runtime.shards():
            for lives in portions(shard.transactions.values()):
                states.update([live.metadata.state for live in lives])
                yield
            for lives in portions(shard.ongoing.values()):
                two_phase += sum(live.metadata.is_two_phase for live in lives)
                for start_ms in [live.metadata.start_ms for live in lives]:
                    if start_ms >= 0 and (oldest_ms is None or start_ms < oldest_ms):
                        oldest_ms = start_ms
                yield
            for live in list(shard.prepared.values()):
                markers += len(live.markers_left)
                unappended += not live.markers_left
                prepared_ms = live.metadata.last_update_ms
                decided_ms = prepared_ms if decided_ms is None else min(decided_ms, prepared_ms)
                yield
                for partition in list(live.markers_left):
                    leaderless += not self._has_leader(partition)
                    yield
        return TransactionTotals(
            {state: states[state] for state in State},
            two_phase,
            oldest_ms,
            decided_ms,
            markers,
            leaderless,
            unappended,
        )

    def outcomes(self) -> TransactionOutcomes:
        fences = self._fences
        aborted, committed = self._decided
        loads = self._runtime.load_times
        return TransactionOutcomes(
            committed,
            aborted,
            _named(fences.aborted),
            _named(fences.fenced),
            _named(fences.refused),
            fences.refused_unknown,
            LoadView(loads.longest_ms, loads.average_ms),
        )


def views_of(lives: Iterable[LiveTransaction]) -> Iterator[TransactionView]:
    """Yield the ids that clients may see. Each view shows the state at its yield."""
    for live in lives:
        if live.is_listed:
            metadata = live.metadata
            yield TransactionView(
                metadata.transactional_id, metadata.producer_id, metadata.state, metadata.start_ms
            )


def details_of(live: LiveTransaction, *, now_ms: int) -> TransactionDetails:
    """Return the details of an id. `now_ms` is monotonic."""
    metadata = live.metadata
    partitions = live.markers_left if metadata.is_prepared else metadata.partitions
    may_expire = metadata.state is State.ONGOING and not metadata.is_two_phase
    time_left_ms = None
    if may_expire and live.deadline_ms is not None:
        time_left_ms = max(live.deadline_ms - now_ms, 0)
    return TransactionDetails(
        metadata.transactional_id,
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.state,
        metadata.timeout_ms,
        metadata.start_ms,
        time_left_ms,
        tuple(sorted(partitions)),
        *(live.client or _NO_CLIENT),
        tuple(map(_fence, live.fences)),
    )


def _fence(fence: Fence) -> FenceView:
    return FenceView(
        fence.producer_id,
        fence.producer_epoch,
        fence.label,
        fence.at_ms,
        *(fence.by or _NO_CLIENT),
        fence.refusals,
    )


def _named(counts: Mapping[FenceCause, int]) -> dict[str, int]:
    return {cause.name.lower(): count for cause, count in counts.items()}
