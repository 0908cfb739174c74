"""The coordinators of the other brokers, as the requests of this broker use them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_protocol.messages.describe_transactions import TransactionState
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.coordinator.runtime import Work
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.operator_markers import JudgeMarker, cannot_judge, judge_by
from oncelog_server.transaction.remote.calls import (
    Called,
    CoordinatorCalls,
    ShardLeader,
    calls_about,
    client_in,
    to_clients,
    to_result,
)
from oncelog_server.transaction.remote.operations import CoordinatorOperations
from oncelog_server.transaction.remote.owners import PointedOwners
from oncelog_server.transaction.remote.pending_claims import PendingClaims


class GroupGeneration(NamedTuple):
    """The generation of a group as its coordinator knows it. `code` is an error if the coordinator
    is unavailable. `generation_id` is None if the group has no members. `reason`: the reason for
    which the group refuses another generation."""

    code: ErrorCode
    generation_id: int | None = None
    reason: Reason = Reason(FenceCause.UNKNOWN_TO_GROUP)


class OtherCoordinators:
    """Connects the coordinators of this broker with those of the other brokers. `leader_of` returns
    the leader of a partition, `send` sends a call to another broker (see CoordinatorCalls).
    `shard_count` returns the number of partitions of `__transaction_state`. `work` runs long work
    in slices. `before_serving` is called before this broker serves a call."""

    def __init__(
        self,
        broker_id: int,
        transactions: TransactionCoordinator,
        groups: GroupCoordinator,
        *,
        leader_of: Callable[[TopicPartition], ShardLeader | None],
        send: Callable[[int, TopicPartition, CoordinatorCall], Called],
        shard_count: Callable[[], int],
        work: Work,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        before_serving: Callable[[], None] = lambda: None,
    ) -> None:
        self._transactions = transactions
        self._groups = groups
        claims = PendingClaims()
        operations = CoordinatorOperations(
            transactions, groups, claims, wall_ms=wall_ms, monotonic_ms=monotonic_ms
        )
        self._calls = CoordinatorCalls(
            broker_id, leader_of, send, operations.table(), before_serving
        )
        self._leader_of = leader_of
        self._shard_count = shard_count
        transactions.share_groups(
            PointedOwners(transactions, self._calls, claims, shard_count, wall_ms, work)
        )

    def serve(self, call: CoordinatorCall) -> Called:
        """Serve a call of another broker."""
        return self._calls.serve(call)

    def generation(
        self, membership: GroupAssignment
    ) -> GroupGeneration | Deferred[GroupGeneration]:
        """Return the generation of the group of `membership`."""
        if self._leader_of(TopicPartition(CONSUMER_OFFSETS, 0)) is None:
            return GroupGeneration(ErrorCode.NONE)  # no group has ever had members
        call = CoordinatorCall(
            Operation.LIVE_GENERATION,
            membership.group_id,
            generation_id=membership.generation_id,
        )
        partition = self._groups.offsets_partition(membership.group_id)
        return then(self._calls.ask(partition, call), _generation)

    def judge_markers(self, producer_ids: Collection[int]) -> JudgeMarker | Deferred[JudgeMarker]:
        """Return the function that judges an operator's markers of these producers. No marker is
        allowed while a shard of the cluster is unavailable."""
        calls = calls_about(Operation.MISSING_MARKERS, producer_ids, self._shard_count())
        return then(gather([self._calls.ask(*call) for call in calls]), _judge)

    def count_refused(
        self,
        transactional_id: str,
        group_id: str | None,
        producer: tuple[int, int],
        reason: Reason,
        caller: ClientRequest,
    ) -> None:
        """Let the coordinator of the id, or of its group, count a refused request. The count is for
        operators only, so it is lost if the coordinator is unavailable."""
        if self._transactions.coordinator_of(group_id or transactional_id) is None:
            return
        call = CoordinatorCall(
            Operation.REFUSED,
            transactional_id,
            group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            caller=to_clients(caller),
            cause=reason.cause.name,
            at_ms=-1 if reason.at_ms is None else reason.at_ms,
            caused_by=to_clients(reason.by),
        )
        self._calls.ask(self._transactions.shard_of(group_id or transactional_id), call)

    def describe(
        self, transactional_id: str, group_id: str
    ) -> TransactionState | Deferred[TransactionState]:
        """Return the state of an id in a group, or the error code."""
        call = CoordinatorCall(Operation.LOCATE, transactional_id, group_id)

        def described(result: CoordinatorCallResult) -> TransactionState:
            if result.transactions:
                return result.transactions[0]
            code = to_result(result).code
            if code is ErrorCode.NONE:
                code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return TransactionState(code, transactional_id)

        return then(self._calls.ask(self._transactions.shard_of(group_id), call), described)


def _judge(results: list[CoordinatorCallResult]) -> JudgeMarker:
    missing: dict[int, set[TopicPartition]] = {}
    for result in results:
        if result.error_code != ErrorCode.NONE:
            return cannot_judge
        for state in result.transactions:
            missing.setdefault(state.producer_id, set()).update(
                TopicPartition(topic.topic, partition)
                for topic in state.topics
                for partition in topic.partitions
            )
    return judge_by(missing)


def _generation(result: CoordinatorCallResult) -> GroupGeneration:
    code = to_result(result).code
    if code is not ErrorCode.NONE:
        return GroupGeneration(code)
    generation_id = None if result.generation_id < 0 else result.generation_id
    cause = FenceCause.__members__.get(result.cause, FenceCause.UNKNOWN_TO_GROUP)
    at_ms = None if result.at_ms < 0 else result.at_ms
    return GroupGeneration(code, generation_id, Reason(cause, client_in(result.caused_by), at_ms))
