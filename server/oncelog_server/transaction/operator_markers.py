"""Markers that an operator writes without the coordinator (KIP-664). They may end a transaction
that hangs: no coordinator will end it. A transaction that a coordinator will end must end as a
whole, so its markers are refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.fences import FenceCause, Fences, Reason, fence_for
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard

# Returns the code of a marker: `code(producer id, partition)`.
JudgeMarker = Callable[[int, TopicPartition], ErrorCode]


def judge_by(missing: Mapping[int, Collection[TopicPartition]]) -> JudgeMarker:
    """Return the function that judges markers. `missing` has the partitions that will get a marker
    of their coordinator, by producer id: those of open and of decided transactions.

    The code is INVALID_TXN_STATE for these markers, and NONE for others. Epochs do not matter,
    because a decision bumps the epoch before its markers are written.
    """

    def code(producer_id: int, partition: TopicPartition) -> ErrorCode:
        is_live = partition in missing.get(producer_id, ())
        return ErrorCode.INVALID_TXN_STATE if is_live else ErrorCode.NONE

    return code


def cannot_judge(producer_id: int, partition: TopicPartition) -> ErrorCode:
    """Return the code while a coordinator does not know which markers it will write."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class OperatorMarkers:
    """Judges and counts the markers of operators. `decided` has the coordinator's counters of
    aborted and committed transactions."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        fences: Fences,
        decided: list[int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._fences = fences
        self._decided = decided
        self._wall_ms = wall_ms

    def judge(self) -> JudgeMarker:
        """Return the function that judges the markers of a request, if this broker has all shards.
        The code is COORDINATOR_LOAD_IN_PROGRESS while a shard is being loaded."""
        if self._runtime.is_loading:
            return cannot_judge
        missing = {
            live.metadata.producer_id: markers_of(live)
            for _, shard in self._runtime.shards()
            for transactions in (shard.ongoing, shard.prepared)
            for live in transactions.values()
        }
        return judge_by(missing)

    def aborted(self, producer_id: int, producer_epoch: int, caller: ClientRequest) -> None:
        """Count a transaction that an operator has aborted in one partition. The coordinator may
        not know its producer id."""
        lives = (
            transaction
            for _, shard in self._runtime.shards()
            for transaction in shard.transactions.values()
        )
        live = next((live for live in lives if live.metadata.producer_id == producer_id), None)
        fence = fence_for(
            "" if live is None else live.metadata.transactional_id,
            (producer_id, producer_epoch),
            None if live is None else live.client,
            Reason(FenceCause.OPERATOR, caller),
            aborted=True,
            wall_ms=self._wall_ms(),
        )
        # The producer keeps its epoch, so this fence refuses no producer.
        if live is None:
            self._fences.log_abort(fence)
        else:
            live.fences = self._fences.remember_abort(live.fences, fence)
        self._decided[False] += 1


def markers_of(live: LiveTransaction) -> Set[TopicPartition]:
    """Return the partitions that will get a marker."""
    return live.markers_left if live.metadata.is_prepared else live.metadata.partitions
