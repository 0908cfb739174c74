"""Before the first FindCoordinator the internal topic does not exist. Each API then returns the
code after which a client looks for the coordinator again."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, Final

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import RETRIABLE, ErrorCode
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.handlers import all_handlers
from oncelog_server.security.resources import Operation
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.coordinator import TransactionCoordinator
from tests.server.handlers.nodes import UNUSED, Denying, StillClock, ask, broker
from tests.server.handlers.requests import (
    add_by_broker,
    add_by_client,
    add_offsets_request,
    codes,
    commit_request,
    delete_groups_request,
    describe_groups_request,
    end_request,
    heartbeat_request,
    join_request,
    leave_request,
    list_groups_request,
    offset_delete_request,
    offset_fetch_request,
    produce_request,
    sync_request,
    transactional_request,
    txn_commit_request,
)
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition

HANDLERS: Final = {handler.API: handler.module for handler in all_handlers()}
TOPIC: Final = "orders"
NOT_COORDINATOR: Final = ErrorCode.NOT_COORDINATOR


def without_internal_topics(services: BrokerServices) -> BrokerServices:
    clock, timers = StillClock(), ManualTimers()
    groups = GroupCoordinator(
        partition_count=lambda: 0,
        config=GroupConfig(),
        new_member_id=lambda client_id: client_id,
        timers=timers,
        wall_ms=clock.now_ms,
        monotonic_ms=clock.now_ms,
    )
    transactions = TransactionCoordinator(
        partition_count=lambda: 0,
        leaders=UNUSED,
        new_producer_id=lambda principal: 1,
        timers=timers,
        wall_ms=clock.now_ms,
        monotonic_ms=clock.now_ms,
        max_timeout_ms=900_000,
    )
    return replace(
        services,
        clock=clock,
        timers=timers,
        groups=groups,
        transactions=transactions,
        partition_adding=transactions.add_partitions,
    )


@pytest.mark.parametrize(
    ("api", "request_about", "version", "code"),
    [
        (ApiKey.JOIN_GROUP, join_request, None, NOT_COORDINATOR),
        (ApiKey.SYNC_GROUP, sync_request, None, NOT_COORDINATOR),
        (ApiKey.HEARTBEAT, heartbeat_request, None, NOT_COORDINATOR),
        (ApiKey.LEAVE_GROUP, leave_request, None, NOT_COORDINATOR),
        (ApiKey.OFFSET_COMMIT, commit_request, 9, NOT_COORDINATOR),
        (ApiKey.OFFSET_FETCH, offset_fetch_request, 9, NOT_COORDINATOR),
        (ApiKey.OFFSET_DELETE, offset_delete_request, None, NOT_COORDINATOR),
        (ApiKey.DESCRIBE_GROUPS, describe_groups_request, None, NOT_COORDINATOR),
        (ApiKey.DELETE_GROUPS, delete_groups_request, None, NOT_COORDINATOR),
        (ApiKey.LIST_GROUPS, list_groups_request, None, ErrorCode.NONE),
        (ApiKey.INIT_PRODUCER_ID, transactional_request, None, NOT_COORDINATOR),
        (ApiKey.ADD_PARTITIONS_TO_TXN, add_by_client, 3, NOT_COORDINATOR),
        (ApiKey.ADD_PARTITIONS_TO_TXN, add_by_broker, None, NOT_COORDINATOR),
        (ApiKey.END_TXN, end_request, None, NOT_COORDINATOR),
        (ApiKey.TXN_OFFSET_COMMIT, txn_commit_request, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ApiKey.TXN_OFFSET_COMMIT, txn_commit_request, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        # A partition's leader asks the transaction coordinator about the transaction. Without a
        # coordinator the leader returns a code that every producer retries.
        (ApiKey.PRODUCE, produce_request(1, "id"), 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_a_client_has_to_look_for_the_coordinator(
    api: ApiKey, request_about: Callable[[str], Any], version: int | None, code: ErrorCode
) -> None:
    assert code in RETRIABLE | {ErrorCode.NONE}
    async with broker() as bare:
        await bare.metadata.create_topics([NewTopic(TOPIC)])
        services = without_internal_topics(bare)
        services.partitions.add(partition(name=TopicPartition(TOPIC, 0)))
        response = await ask(HANDLERS[api], services, request_about(TOPIC), version)
        assert set(codes(response)) | {ErrorCode.NONE} == {code, ErrorCode.NONE}


async def test_add_offsets_to_txn_creates_the_offsets_topic() -> None:
    """A producer may send AddOffsetsToTxn before any consumer has looked for the group's
    coordinator."""
    async with broker() as bare:
        services = without_internal_topics(bare)
        response = await ask(
            HANDLERS[ApiKey.ADD_OFFSETS_TO_TXN], services, add_offsets_request(TOPIC)
        )
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await services.metadata.missing_topics.create_one(CONSUMER_OFFSETS)
        assert CONSUMER_OFFSETS in services.metadata.image.topics


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
async def test_a_sync_without_a_protocol_is_refused_before_its_rights(field: str) -> None:
    """Since v5, the protocol's type and name are mandatory (KIP-559)."""
    request = sync_request(TOPIC)
    async with broker(authorizer=Denying((Operation.READ, request.group_id))) as services:
        denied = await ask(HANDLERS[ApiKey.SYNC_GROUP], services, request)
        assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        incomplete = copy(request)
        setattr(incomplete, field, None)
        refused = await ask(HANDLERS[ApiKey.SYNC_GROUP], services, incomplete)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
