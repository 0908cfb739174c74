"""TxnOffsetCommit if other brokers coordinate the transactions (KIP-447, early draft,
"Compatibility fencing"). The abort of an older producer is never left out."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.codecs import decode
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import CoordinatorCallRequest
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.deferred import Deferred
from oncelog_server.group.moment import Caller
from oncelog_server.transaction.fences import FenceCause
from oncelog_server.transaction.offset_commit import TransactionalCommit, TxnOffsetCommitResult
from oncelog_server.transaction.remote.calls import PRODUCERS_PER_CALL
from tests.server.transaction.remote.brokers import Brokers
from tests.server.transaction.remote.test_generations import CLIENT, join_group
from tests.server.transaction.remote.test_moves import ID, LOADING, NONE, G, init, name_in
from tests.server.transaction.world import GROUP, value_of

# Different brokers coordinate these ids and the offsets of the group.
OLDER, NEWER = name_in(3, "older"), name_in(1, "newer")
Committed = TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]


def commit(
    cluster: Brokers,
    name: str,
    producer: tuple[int, int],
    *,
    group: str | None = None,
    generation_id: int = -1,
    offset: int = 5,
) -> Committed:
    broker = cluster.offsets_broker
    partitions = [TxnOffsetCommitRequestPartition(0, offset)]
    request = TxnOffsetCommitRequest(
        name,
        GROUP,
        *producer,
        generation_id_or_member_epoch=generation_id,
        member_id="" if generation_id < 0 else "unknown",
        topics=[TxnOffsetCommitRequestTopic("in", partitions=partitions)],
        transaction_group_id=group,
    )
    return TransactionalCommit(
        broker.transactions,
        cluster.transactions.add_partitions,
        broker.groups,
        request,
        caller=CLIENT,
        asking=lambda: Caller(now_ms=broker.now(), wall_ms=broker.wall(), api_version=5),
        api_version=5,
        aborts_older=True,
        others=broker.others,
    ).run(adds=True, verifies=True)


def code_of(response: Committed) -> ErrorCode:
    found: Any = value_of(response)
    if isinstance(found, ErrorCode):
        return found
    return ErrorCode(found.topics[0].partitions[0].error_code)


def begun(older_group: str | None = None) -> tuple[Brokers, tuple[int, int], tuple[int, int]]:
    """Return a cluster with two producers. The older one has an open transaction with an offset."""
    cluster = Brokers()
    coordinators = {
        cluster.offsets_broker,
        cluster.coordinator(OLDER if older_group is None else older_group),
    }
    assert len(coordinators) == 2
    older = init(cluster, older_group, OLDER)
    newer = init(cluster, None, NEWER)
    assert code_of(commit(cluster, OLDER, older, group=older_group, offset=4)) is NONE
    return cluster, older, newer


def ended(cluster: Brokers, name: str, producer: tuple[int, int]) -> ErrorCode:
    return value_of(cluster.end(producer, True, transactional_id=name)).code


@pytest.mark.parametrize("older_group", [None, G])
def test_b27_the_transaction_of_an_older_producer_is_aborted_at_its_coordinator(
    older_group: str | None,
) -> None:
    cluster, older, newer = begun(older_group)
    response = commit(cluster, NEWER, newer)
    cluster.settle()
    assert code_of(response) is NONE
    place = OLDER if older_group is None else older_group
    coordinator = cluster.coordinator(place).transactions
    assert coordinator.fences.aborted[FenceCause.CONCURRENT_COMMIT] == 1
    (fence,) = coordinator.owner(place)[1].transactions[OLDER].fences
    assert fence.by == CLIENT
    assert ended(cluster, NEWER, newer) is NONE
    assert cluster.offsets_broker.offset() == (NONE, 5)
    if older_group is None:
        assert ended(cluster, OLDER, older) is not NONE


@pytest.mark.parametrize("others", [range(10_000, 10_250), range(-250, 0)])
def test_an_older_producer_among_more_than_one_call_may_have_is_aborted(others: range) -> None:
    cluster, older, _ = begun()
    broker = cluster.offsets_broker
    sent = cluster.sent
    aborted = broker.transactions.abort_older(frozenset({older[0], *others}), CLIENT)
    calls = [decode(CoordinatorCallRequest, 0, flight.request).call for flight in cluster.flights]
    assert max(len(call.producer_ids) for call in calls) == PRODUCERS_PER_CALL
    cluster.settle()
    assert value_of(aborted).code is NONE
    remote = [log for log in cluster.transaction_logs if log not in broker.partitions]
    assert cluster.sent - sent == len(remote) * 3
    assert ended(cluster, OLDER, older) is not NONE


@pytest.mark.parametrize("size", [1, 3])
def test_no_shard_of_a_broker_whose_registration_may_have_ended_says_that_it_has_nothing(
    size: int,
) -> None:
    """After a pause, the broker may continue a request before a timer suspends its shards. Another
    broker may lead them, and the older transaction may be there."""
    cluster = Brokers(size=size)
    broker = cluster.offsets_broker

    def suspend() -> None:
        for partition in broker.partitions.values():
            partition.suspend()

    aborted = broker.transactions.abort_older(frozenset({7}), CLIENT)
    cluster.settle()
    assert value_of(aborted).code is NONE
    broker.others._calls._before_serving = suspend
    aborted = broker.transactions.abort_older(frozenset({7}), CLIENT)
    cluster.settle()
    assert value_of(aborted).code is LOADING


def test_without_pending_offsets_no_broker_is_asked() -> None:
    cluster, older, newer = begun()
    assert ended(cluster, OLDER, older) is NONE
    sent = cluster.sent
    assert code_of(commit(cluster, NEWER, newer)) is NONE
    assert cluster.sent == sent


@pytest.mark.parametrize("shard", [0, 2, 3, 4])
def test_no_offset_is_written_while_a_coordinator_is_unreachable(shard: int) -> None:
    """Any shard may have the older producer's transaction."""
    cluster, _, newer = begun()
    log = cluster.transaction_logs[shard]
    leader = cluster.leaders[log]
    cluster.leaders[log] = leader._replace(broker_id=-1)
    response = commit(cluster, NEWER, newer)
    cluster.settle()
    assert code_of(response) is LOADING
    cluster.leaders[log] = leader
    again = commit(cluster, NEWER, newer)
    cluster.settle()
    assert code_of(again) is NONE
    assert ended(cluster, NEWER, newer) is NONE
    assert cluster.offsets_broker.offset() == (NONE, 5)


@pytest.mark.parametrize("loses", ["call", "response"])
def test_a_lost_call_or_response_refuses_the_commit_and_the_retry_succeeds(loses: str) -> None:
    cluster, _, newer = begun()
    response = commit(cluster, NEWER, newer)
    lost = [flight for flight in cluster.flights if flight.request != b""]
    assert lost
    if loses == "call":
        cluster.flights.clear()
    for flight in lost:
        flight.lose()
    cluster.settle()
    assert code_of(response) is LOADING
    again = commit(cluster, NEWER, newer)
    cluster.settle()
    assert code_of(again) is NONE
    assert ended(cluster, NEWER, newer) is NONE
    assert cluster.offsets_broker.offset() == (NONE, 5)


def test_the_coordinator_that_dies_after_the_abort_lets_the_newer_producer_continue() -> None:
    cluster, _, newer = begun()
    response = commit(cluster, NEWER, newer)
    cluster.kill(cluster.leaders[cluster.shard_of(OLDER)].broker_id)
    cluster.settle()
    assert code_of(response) is LOADING
    again = commit(cluster, NEWER, newer)
    cluster.settle()
    assert code_of(again) is NONE
    assert ended(cluster, NEWER, newer) is NONE
    assert cluster.offsets_broker.offset() == (NONE, 5)


def test_a_request_that_the_group_refuses_is_counted_at_the_coordinator_of_the_id() -> None:
    cluster = Brokers()
    join_group(cluster, GROUP)
    producer = init(cluster, None, ID)
    response = commit(cluster, ID, producer, generation_id=7)
    cluster.settle()
    assert code_of(response) is not NONE
    coordinator = cluster.coordinator(ID)
    assert coordinator is not cluster.offsets_broker
    assert sum(coordinator.transactions.fences.refused.values()) == 1
    assert len(coordinator.transactions.find(ID).fences) == 1
    assert not sum(cluster.offsets_broker.transactions.fences.refused.values())
