"""InitProducerId of a group's member, if other brokers coordinate the group (KIP-447, early draft).
The check of the generation is never left out."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.fences import FenceCause
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.initialization import Initialization
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota
from oncelog_server.transaction.producer_ids import ProducerIds
from oncelog_server.transaction.results import TransactionResult
from tests.server.handlers.test_group_transactions import CALLER, JOIN
from tests.server.transaction.remote.brokers import Answer, Brokers
from tests.server.transaction.remote.test_moves import BUSY, ID, LOADING, NONE, G, H
from tests.server.transaction.world import OFFSETS, value_of

ILLEGAL = ErrorCode.ILLEGAL_GENERATION
CLIENT = Client("client", "/10.0.0.1")
IN0 = TopicPartition("in", 0)


def with_members(group_id: str = G) -> Brokers:
    """Return a cluster with a group in generation 1. Different brokers coordinate the group's
    offsets, its transactions and the transactional id."""
    cluster = Brokers()
    coordinators = {cluster.offsets_broker, cluster.coordinator(G), cluster.coordinator(ID)}
    assert len(coordinators) == 3
    join_group(cluster, group_id)
    return cluster


def join_group(cluster: Brokers, group_id: str) -> None:
    JOIN.group_id = group_id
    joined = cluster.offsets_broker.groups.run(
        group_id, lambda shard: shard.join_group(JOIN, CALLER)
    )
    JOIN.group_id = "g"
    cluster.settle(3_000)
    member = value_of(joined)
    assert member.generation_id == 1
    sync = SyncGroupRequest(
        group_id,
        1,
        member.member_id,
        assignments=[SyncGroupRequestAssignment(member.member_id, b"")],
    )
    synced = cluster.offsets_broker.groups.run(
        group_id, lambda shard: shard.sync_group(sync, CALLER)
    )
    cluster.settle()
    assert not value_of(synced).error_code


def ask(cluster: Brokers, generation_id: int, group_id: str = G, name: str = ID) -> Answer:
    broker = cluster.coordinator(group_id)
    try:
        return Initialization(
            broker.transactions,
            broker.groups,
            ProducerIdQuota(100),
            ProducerIds(lambda principal: None),
            broker.now,
            CLIENT,
            InitProducerId(name, 60_000, caller=CLIENT),
            GroupAssignment(group_id, generation_id, frozenset({IN0})),
            broker.others,
        ).run()
    except Refused as refused:
        return TransactionResult(refused.code)


def code_of(cluster: Brokers, generation_id: int, **names: str) -> ErrorCode:
    for _ in range(20):
        response = ask(cluster, generation_id, **names)
        cluster.settle(100)
        code = value_of(response).code
        if code is not BUSY:
            break
    return code


def test_a_member_of_the_current_generation_is_initialized() -> None:
    cluster = with_members()
    assert code_of(cluster, 1) is NONE
    assert cluster.owners(ID) == [G]


@pytest.mark.parametrize("generation_id", [0, 2])
def test_another_generation_is_refused_with_the_reason_of_the_group(generation_id: int) -> None:
    cluster = with_members()
    assert code_of(cluster, 1) is NONE
    assert code_of(cluster, generation_id) is ILLEGAL
    coordinator = cluster.coordinator(G).transactions
    cause = FenceCause.NEWER_GENERATION if generation_id == 0 else FenceCause.UNKNOWN_TO_GROUP
    assert coordinator.fences.refused[cause] == 1
    fence = coordinator.find(ID).fences[-1]
    assert (fence.cause, fence.owner) == (cause, CLIENT)
    if generation_id == 0:
        assert fence.by == Client("member", "/10.0.0.2")


def test_a_group_without_members_has_any_generation() -> None:
    """The group of a Spark sink has no members."""
    cluster = Brokers()
    assert code_of(cluster, 7) is NONE


@pytest.mark.parametrize("generation_id", [0, 1])
def test_b27_no_generation_is_accepted_while_the_groups_coordinator_is_unreachable(
    generation_id: int,
) -> None:
    cluster = with_members()
    response = ask(cluster, generation_id)
    (flight,) = cluster.flights
    flight.lose()
    cluster.settle()
    assert value_of(response).code is LOADING
    assert cluster.owners(ID) == []


def test_the_next_coordinator_of_the_group_refuses_other_generations_too() -> None:
    cluster = with_members()
    cluster.kill(cluster.leaders[OFFSETS].broker_id)
    assert code_of(cluster, 0) is ILLEGAL
    assert code_of(cluster, 1) is NONE


def test_a_former_coordinator_of_the_group_does_not_count() -> None:
    """The group moves while the response of its former coordinator is in flight."""
    cluster = with_members()
    response = ask(cluster, 1)
    (flight,) = cluster.flights
    answer, flight.answer = flight.answer, Deferred()
    cluster.settle()
    cluster.move(OFFSETS, cluster.leaders[cluster.shard_of(ID)].broker_id)
    flight.answer.on_complete(answer.complete)
    cluster.settle()
    assert value_of(response).code is LOADING
    assert cluster.owners(ID) == []


def test_a_group_without_a_leader_is_unavailable() -> None:
    cluster = with_members()
    leader = cluster.leaders[OFFSETS]
    cluster.leaders[OFFSETS] = leader._replace(broker_id=-1)
    assert code_of(cluster, 0) is LOADING


def test_a_group_that_was_created_again_begins_with_its_first_generation() -> None:
    cluster = Brokers()
    assert code_of(cluster, 9, name="other") is NONE
    assert code_of(cluster, 1) is ILLEGAL
    join_group(cluster, G)
    assert code_of(cluster, 1) is NONE
    assert cluster.owners("other") == []
    # The id that has left the group may be initialized anywhere.
    assert code_of(cluster, 1, group_id=H, name="other") is NONE
