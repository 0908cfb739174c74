"""The table of the operations between coordinators, and the routes of calls."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.remote.calls import (
    CoordinatorCalls,
    ShardLeader,
    to_result,
    unavailable,
)
from oncelog_server.transaction.remote.operations import OPERATIONS
from tests.server.transaction.remote.brokers import Brokers
from tests.server.transaction.remote.test_moves import ID, G, H, init, name_in
from tests.server.transaction.world import value_of

SHARD = TopicPartition(TRANSACTION_STATE, 0)
CALL = CoordinatorCall(Operation.LOCATE, "t", "g")
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_each_operation_has_a_row() -> None:
    assert set(OPERATIONS) == set(Operation)


# LIVE_GENERATION needs no field: the group with the empty name has no members.
@pytest.mark.parametrize("operation", sorted(set(Operation) - {Operation.LIVE_GENERATION}))
def test_a_call_without_its_fields_is_refused_and_changes_nothing(operation: Operation) -> None:
    """A call of a newer release may lack fields that this release needs."""
    cluster = Brokers()
    before = [cluster.oracle(log).end_offset for log in cluster.transaction_logs]
    result = value_of(cluster.brokers[1].others.serve(CoordinatorCall(operation)))
    assert result.error_code != ErrorCode.NONE
    assert [cluster.oracle(log).end_offset for log in cluster.transaction_logs] == before


def test_an_unknown_operation_is_refused() -> None:
    result = value_of(Brokers().brokers[1].others.serve(CoordinatorCall(99)))
    assert result.error_code == ErrorCode.UNSUPPORTED_VERSION


def routes(
    leader: ShardLeader | None, result: CoordinatorCallResult
) -> tuple[CoordinatorCallResult, list[int]]:
    """Return the result of a call of broker 1, and the brokers that were asked."""
    asked: list[int] = []

    def send(
        broker_id: int, partition: TopicPartition, call: CoordinatorCall
    ) -> CoordinatorCallResult:
        asked.append(broker_id)
        return result

    calls = CoordinatorCalls(
        1, lambda partition: leader, send, {Operation.LOCATE: lambda call: send(1, SHARD, call)}
    )
    return value_of(calls.ask(SHARD, CALL)), asked


@pytest.mark.parametrize(
    ("leader", "epoch", "code", "expected", "asked"),
    [
        (ShardLeader(1, 4), 4, ErrorCode.NONE, ErrorCode.NONE, [1]),
        (ShardLeader(2, 4), 4, ErrorCode.NONE, ErrorCode.NONE, [2]),
        # The leader knows a newer epoch than the metadata of this broker.
        (ShardLeader(2, 4), 5, ErrorCode.NONE, ErrorCode.NONE, [2]),
        (ShardLeader(2, 4), 3, ErrorCode.NONE, LOADING, [2]),
        (ShardLeader(2, 4), -1, ErrorCode.NOT_COORDINATOR, LOADING, [2]),
        (ShardLeader(1, 4), -1, ErrorCode.NOT_COORDINATOR, LOADING, [1]),
        (ShardLeader(2, 4), -1, ErrorCode.UNSUPPORTED_VERSION, LOADING, [2]),
        (ShardLeader(2, 4), -1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, LOADING, [2]),
        (
            ShardLeader(2, 4),
            4,
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.CONCURRENT_TRANSACTIONS,
            [2],
        ),
        (ShardLeader(-1, 4), 4, ErrorCode.NONE, LOADING, []),
        (None, 4, ErrorCode.NONE, LOADING, []),
    ],
)
def test_the_leader_is_asked_and_only_its_result_counts(
    leader: ShardLeader | None, epoch: int, code: ErrorCode, expected: ErrorCode, asked: list[int]
) -> None:
    result = CoordinatorCallResult(code, coordinator_epoch=epoch)
    found, brokers = routes(leader, result)
    assert (found.error_code, brokers) == (expected, asked)


def test_a_code_of_a_newer_release_is_an_unknown_error() -> None:
    assert to_result(CoordinatorCallResult(9_999)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert to_result(unavailable()).code is LOADING


def locate(cluster: Brokers, name: str, group_id: str | None) -> CoordinatorCallResult:
    """Ask the coordinator of the group."""
    broker = cluster.coordinator(group_id or name)
    return value_of(broker.others.serve(CoordinatorCall(Operation.LOCATE, name, group_id)))


def test_an_id_is_located_in_its_group_only() -> None:
    cluster = Brokers()
    init(cluster, G)
    (state,) = locate(cluster, ID, G).transactions
    assert (state.transactional_id, state.transaction_state) == (ID, "Empty")
    of_same_shard = name_in(cluster.shard_of(G).partition, "other")
    for name, group_id in ((ID, H), (ID, of_same_shard), ("unknown", G)):
        found = locate(cluster, name, group_id)
        assert found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert not found.transactions


def test_an_id_that_has_left_its_group_is_not_located_there() -> None:
    cluster = Brokers()
    init(cluster, G)
    init(cluster, H)
    assert locate(cluster, ID, G).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_call_about_an_id_in_a_group_needs_the_group() -> None:
    """An id without a group may be in the same shard, because different keys may have the same
    hash. Its details are not those of an id in a group."""
    cluster = Brokers()
    init(cluster, None)
    before = [cluster.oracle(log).end_offset for log in cluster.transaction_logs]
    for operation in (Operation.CLAIM, Operation.DEPART, Operation.LOCATE, Operation.END_OPEN):
        broker = cluster.coordinator(ID)
        result = value_of(broker.others.serve(CoordinatorCall(operation, ID)))
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert not result.transactions
    same = name_in(cluster.shard_of(ID).partition, "same")
    assert locate(cluster, ID, same).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert [cluster.oracle(log).end_offset for log in cluster.transaction_logs] == before
