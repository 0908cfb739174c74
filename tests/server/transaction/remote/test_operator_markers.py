"""An operator's marker is judged by all shards of the cluster: another broker may coordinate the
transaction, and will end it as a whole (KIP-664)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.operator_markers import JudgeMarker
from oncelog_server.transaction.remote.calls import PRODUCERS_PER_CALL
from tests.server.transaction.remote.brokers import Broker, Brokers
from tests.server.transaction.remote.test_moves import ID, LOADING, NONE, G, begin, init
from tests.server.transaction.world import A0, A1, B0, value_of

LIVE = ErrorCode.INVALID_TXN_STATE


def elsewhere(cluster: Brokers, key: str) -> Broker:
    """Return a broker that does not coordinate this id or group."""
    return next(
        broker for broker in cluster.brokers.values() if broker is not cluster.coordinator(key)
    )


def judge(cluster: Brokers, broker: Broker, *producer_ids: int) -> JudgeMarker:
    judged = broker.others.judge_markers(producer_ids)
    cluster.settle()
    return value_of(judged)


@pytest.mark.parametrize("group_id", [None, G])
def test_the_markers_of_a_transaction_of_another_broker_are_refused(group_id: str | None) -> None:
    cluster = Brokers()
    producer = init(cluster, group_id)
    assert begin(cluster, group_id, producer) is NONE
    for broker in cluster.brokers.values():
        code = judge(cluster, broker, producer[0], 77)
        assert code(producer[0], A0) is LIVE
        assert code(producer[0], A1) is NONE, "the transaction does not have this partition"
        assert code(77, A0) is NONE


def test_the_missing_markers_of_a_decided_transaction_are_refused_and_the_written_are_not() -> None:
    cluster = Brokers()
    producer = init(cluster, None)
    cluster.add(producer, A0, B0, transactional_id=ID)
    cluster.scene.leaderless.add(B0)
    cluster.end(producer, False, transactional_id=ID)
    code = judge(cluster, elsewhere(cluster, ID), producer[0])
    assert [code(producer[0], partition) for partition in (A0, B0)] == [NONE, LIVE]
    cluster.scene.leaderless.clear()
    cluster.settle(10_000)
    code = judge(cluster, elsewhere(cluster, ID), producer[0])
    assert code(producer[0], B0) is NONE


@pytest.mark.parametrize("how", ["no leader", "lost call"])
def test_no_marker_is_allowed_while_a_shard_is_unavailable(how: str) -> None:
    """The unavailable shard may have the transaction."""
    cluster = Brokers()
    producer = init(cluster, None)
    assert begin(cluster, None, producer) is NONE
    broker = elsewhere(cluster, ID)
    log = cluster.shard_of(ID)
    leader = cluster.leaders[log]
    if how == "no leader":
        cluster.leaders[log] = leader._replace(broker_id=-1)
    judged = broker.others.judge_markers([producer[0]])
    for flight in cluster.flights[:] if how == "lost call" else ():
        flight.lose()
    cluster.settle()
    assert value_of(judged)(producer[0], A0) is LOADING
    assert value_of(judged)(77, A1) is LOADING
    cluster.leaders[log] = leader
    assert judge(cluster, broker, producer[0])(producer[0], A0) is LIVE


def test_more_producers_than_one_call_may_have_are_all_judged() -> None:
    cluster = Brokers()
    producer = init(cluster, None)
    assert begin(cluster, None, producer) is NONE
    for others in (range(10_000, 10_000 + 2 * PRODUCERS_PER_CALL), range(-500, -1)):
        code = judge(cluster, elsewhere(cluster, ID), producer[0], *others)
        assert code(producer[0], A0) is LIVE


def test_a_cluster_without_transactions_asks_no_shard() -> None:
    cluster = Brokers()
    broker = cluster.brokers[1]
    broker.others._shard_count = lambda: 0
    assert judge(cluster, broker, 7)(7, A0) is NONE
