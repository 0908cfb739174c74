"""Routes calls between coordinators to the leader of the shard: on this broker, or on another one
(CoordinatorCall).

No call is retried here. A shard that cannot be reached makes the call fail with
COORDINATOR_LOAD_IN_PROGRESS, which every client retries. By then, the metadata may name another
leader. Repeating an operation must be harmless, because an earlier call without a response may have
taken effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CallClient,
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.deferred import Deferred, then
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client, ClientRequest
from oncelog_server.transaction.results import TransactionResult

# Maximum number of producers in one call.
PRODUCERS_PER_CALL: Final = 100

Called = CoordinatorCallResult | Deferred[CoordinatorCallResult]

# Codes for two cases: the called broker does not lead the shard, or it does not serve this broker,
# because it has an older version or no access rule allows the call. The client must not get these
# codes, because the client's own coordinator is right, and the client's rights are not in question.
_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class ShardLeader(NamedTuple):
    """The leader of a partition in the metadata. `broker_id` is below 0 without a leader."""

    broker_id: int
    epoch: int


class CoordinatorCalls:
    """`leader_of` returns the leader of a partition, None for an unknown partition. `send` sends a
    call about a partition to another broker. Its result has the code COORDINATOR_LOAD_IN_PROGRESS
    if the broker is unreachable, or the response was lost. `operations` serves the calls on this
    broker. `before_serving` suspends the shards of this broker if its registration may have ended:
    no call is served from memory then."""

    def __init__(
        self,
        broker_id: int,
        leader_of: Callable[[TopicPartition], ShardLeader | None],
        send: Callable[[int, TopicPartition, CoordinatorCall], Called],
        operations: Mapping[Operation, Callable[[CoordinatorCall], Called]],
        before_serving: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker_id = broker_id
        self._leader_of = leader_of
        self._send = send
        self._operations = operations
        self._before_serving = before_serving

    def ask(self, partition: TopicPartition, call: CoordinatorCall) -> Called:
        """Return the result of the partition's leader."""
        leader = self._leader_of(partition)
        if leader is None or leader.broker_id < 0:
            return unavailable()
        if leader.broker_id == self._broker_id:
            called = self.serve(call)
        else:
            called = self._send(leader.broker_id, partition, call)
        return then(called, lambda result: self._checked(partition, result))

    def serve(self, call: CoordinatorCall) -> Called:
        """Serve a call of this broker or another one."""
        try:
            operation = Operation(call.operation)
        except ValueError:
            return CoordinatorCallResult(ErrorCode.UNSUPPORTED_VERSION)
        self._before_serving()
        try:
            return self._operations[operation](call)
        except Refused as refused:
            return CoordinatorCallResult(refused.code, refused.message or "")

    def _checked(
        self, partition: TopicPartition, result: CoordinatorCallResult
    ) -> CoordinatorCallResult:
        """Return the result, or an error if no leader or a deposed leader has served the call. The
        leader was deposed if the metadata has a newer epoch than the result."""
        if result.error_code in _UNAVAILABLE:
            return unavailable()
        if result.error_code != ErrorCode.NONE:
            return result
        leader = self._leader_of(partition)
        if leader is None or result.coordinator_epoch < leader.epoch:
            return unavailable()
        return result


def calls_about(
    operation: Operation,
    producer_ids: Collection[int],
    shard_count: int,
    caller: ClientRequest | None = None,
) -> Iterator[tuple[TopicPartition, CoordinatorCall]]:
    """Yield the calls to every shard of transactions: any shard may have the transaction of a
    producer id."""
    ids = sorted(producer_ids)
    for index in range(shard_count):
        for begin in range(0, len(ids), PRODUCERS_PER_CALL):
            call = CoordinatorCall(
                operation,
                producer_ids=ids[begin : begin + PRODUCERS_PER_CALL],
                partition=index,
                caller=to_clients(caller),
            )
            yield TopicPartition(TRANSACTION_STATE, index), call


def unavailable() -> CoordinatorCallResult:
    """Return the result of a shard that cannot be reached."""
    return CoordinatorCallResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def to_result(called: CoordinatorCallResult) -> TransactionResult:
    """Return the result of a call as that of a command."""
    try:
        code = ErrorCode(called.error_code)
    except ValueError:  # of a newer release
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return TransactionResult(
        code,
        called.producer_id,
        called.producer_epoch,
        message=called.error_message,
    )


def from_result(result: TransactionResult, coordinator_epoch: int) -> CoordinatorCallResult:
    """Return the result of a command as that of a call."""
    return CoordinatorCallResult(
        result.code,
        result.message,
        coordinator_epoch,
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )


def client_in(clients: list[CallClient]) -> Client | None:
    """Return the client of a call, None if the call names none."""
    if not clients:
        return None
    return Client(clients[0].client_id, clients[0].client_address, clients[0].principal)


def to_clients(client: ClientRequest | None) -> list[CallClient]:
    if client is None:
        return []
    return [CallClient(client.client_id, client.client_address, client.principal)]
