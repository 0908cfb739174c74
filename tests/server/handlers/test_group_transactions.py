"""Transactions of the producers in a consumer group, and one EndTxn for several of them. The tests
check which requests the handlers refuse before they call a coordinator, and which coordinator
FindCoordinator returns for a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnMember, EndTxnRequest
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.init_producer_id import AssignedTopic, InitProducerIdRequest
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.group.moment import Caller
from oncelog_server.handlers import end_txn, find_coordinator, init_producer_id
from oncelog_server.security.resources import Operation
from oncelog_server.settings.model import Settings
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import FenceCause
from tests.server.handlers.nodes import Denying, ask, broker
from tests.server.handlers.test_no_coordinator import without_internal_topics
from tests.server.transaction.world import WALL_MS, World, value_of
from tests.server.transaction.world_clock import WorldClock

CALLER = Caller(
    now_ms=1_000, wall_ms=WALL_MS, api_version=3, client_id="member", client_host="/10.0.0.2"
)
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=60_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol("range", b"")],
)
ASSIGNED = [AssignedTopic("in", [0])]
WHOLE: dict[str, Any] = {
    "transactional_id": "t",
    "consumer_group_id": "g",
    "consumer_group_generation": 1,
    "assigned_partitions": ASSIGNED,
}


@pytest.mark.parametrize(
    "change",
    [
        {"transactional_id": None},
        {"transactional_id": ""},
        {"consumer_group_id": None},
        {"consumer_group_id": ""},
        {"consumer_group_generation": -1},
        {"assigned_partitions": None},
        {"consumer_group_id": None, "consumer_group_generation": -1},
        {"consumer_group_id": None, "assigned_partitions": None},
        {"consumer_group_generation": -1, "assigned_partitions": None},
    ],
    ids=str,
)
async def test_the_fields_of_a_group_are_all_set_or_none_and_need_a_transactional_id(
    change: dict[str, Any],
) -> None:
    async with broker() as services:
        request = InitProducerIdRequest(transaction_timeout_ms=1_000, **(WHOLE | change))
        response = await ask(init_producer_id, without_internal_topics(services), request)
        assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_an_empty_list_of_input_partitions_is_a_valid_assignment() -> None:
    async with broker() as services:
        request = InitProducerIdRequest(
            transaction_timeout_ms=1_000, **(WHOLE | {"assigned_partitions": []})
        )
        response = await ask(init_producer_id, without_internal_topics(services), request)
        assert response.error_code == ErrorCode.NOT_COORDINATOR


async def test_init_producer_id_with_a_group_is_refused_if_the_feature_is_disabled() -> None:
    async with broker(Settings(group_transactions_enable=False)) as services:
        request = InitProducerIdRequest(transaction_timeout_ms=1_000, **WHOLE)
        response = await ask(init_producer_id, without_internal_topics(services), request)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, 6))
async def test_key_type_2_finds_the_leader_of_the_groups_partition(version: int) -> None:
    async with broker() as services:
        request = FindCoordinatorRequest(key="g", key_type=2, coordinator_keys=["g"])
        response = await ask(find_coordinator, services, request, version)
        coordinator = response.coordinators[0] if version >= 4 else response
        topic = services.metadata.image.topics[TRANSACTION_STATE]
        owner = topic.partitions[partition_for("g", len(topic.partitions))].leader
        assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.NONE, owner)


@pytest.mark.parametrize(
    ("version", "switched_on"), [(6, True), (5, False)], ids=["share group", "switched off"]
)
async def test_other_uses_of_key_type_2_are_refused(version: int, switched_on: bool) -> None:
    async with broker(Settings(group_transactions_enable=switched_on)) as services:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g"])
        (coordinator,) = (await ask(find_coordinator, services, request, version)).coordinators
        assert coordinator.error_code == ErrorCode.INVALID_REQUEST
        assert TRANSACTION_STATE not in services.metadata.image.topics


def ending(group_id: str | None) -> EndTxnRequest:
    return EndTxnRequest(
        "parent", 1, 0, True, transaction_group_id=group_id, members=[EndTxnMember("member", 2, 0)]
    )


async def test_end_txn_with_members_and_without_a_group_is_refused() -> None:
    async with broker() as services:
        response = await ask(end_txn, without_internal_topics(services), ending(None))
        assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_end_txn_needs_write_permission_for_each_member() -> None:
    async with broker(authorizer=Denying((Operation.WRITE, "member"))) as services:
        response = await ask(end_txn, without_internal_topics(services), ending("g"))
        assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert response.refused_member == "member"


async def test_init_producer_id_with_an_older_generation_is_refused_and_counted() -> None:
    """The group coordinator finds that the generation in the request is older than the group's.
    The transaction coordinator counts the refusal, also for a transactional id that it does not
    know."""
    world = World()
    decided = world.groups.run("g", lambda shard: shard.join_group(JOIN, CALLER))
    world.settle(3_000)
    assert value_of(decided).generation_id == 1
    async with broker() as bare:
        clock = WorldClock(world)
        services = replace(bare, groups=world.groups, transactions=world.transactions, clock=clock)
        known, unknown = "known", "unknown"
        world.producer(known)
        for name in (known, unknown):
            request = InitProducerIdRequest(
                name,
                60_000,
                consumer_group_id="g",
                consumer_group_generation=0,
                assigned_partitions=ASSIGNED,
            )
            response = await ask(init_producer_id, services, request)
            assert response.error_code == ErrorCode.ILLEGAL_GENERATION
        assert world.transactions.fences.refused[FenceCause.NEWER_GENERATION] == 2
        (fence,) = world.transactions.find(known).fences
        assert (fence.producer_id, fence.owner) == (-1, Client("test", "/127.0.0.1"))
        assert fence.by == Client("member", "/10.0.0.2")
        assert fence.at_ms == CALLER.wall_ms + 3_000
