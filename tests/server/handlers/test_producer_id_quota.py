"""The quota of an address counts the producer ids that the address got (H60, H61). Calls without a
result cost nothing."""

from __future__ import annotations

from dataclasses import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import AssignedTopic, InitProducerIdRequest
from oncelog_server.broker_services import BrokerServices
from oncelog_server.handlers import init_producer_id
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota
from oncelog_server.transaction.producer_ids import ProducerIds
from tests.server.handlers.nodes import StillClock, ask, broker
from tests.server.transaction.grouped.test_coordinator import SHARDS, named
from tests.server.transaction.world import A0, GROUP, World


async def code_of(services: BrokerServices, request: InitProducerIdRequest) -> ErrorCode:
    return ErrorCode((await ask(init_producer_id, services, request)).error_code)


def limited(services: BrokerServices, world: World, limit: int) -> BrokerServices:
    return replace(
        services,
        clock=StillClock(),
        transactions=world.transactions,
        groups=world.groups,
        producer_id_quota=ProducerIdQuota(limit),
    )


async def test_h60_a_refused_call_costs_nothing_and_a_new_id_does() -> None:
    async with broker() as services:
        services = limited(services, World(), 2)
        for _ in range(5):
            refused = await code_of(services, InitProducerIdRequest("t", 0))
            assert refused is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        codes = [await code_of(services, InitProducerIdRequest(f"t{n}", 1_000)) for n in range(3)]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
        assert await code_of(services, InitProducerIdRequest("t0", 1_000)) is ErrorCode.NONE


async def test_h60_a_request_without_a_coordinator_costs_nothing() -> None:
    async with broker() as services:
        world = World(shards=SHARDS)
        name = named(elsewhere=True)
        services = limited(services, world, 1)
        own, _ = world.transactions.owner(name)
        world.transactions.resign(own)
        request = joining(name)
        for _ in range(3):
            assert await code_of(services, request) is ErrorCode.NOT_COORDINATOR
        world.transactions.lead(world.partitions[world.transaction_logs[own]])
        assert await code_of(services, request) is ErrorCode.NONE


async def test_h60_a_request_that_has_to_be_retried_costs_nothing() -> None:
    """The InitProducerId of a transactional id that joins a group is retried until the id's open
    transaction is aborted."""
    async with broker() as services:
        world = World(shards=SHARDS)
        name = named(elsewhere=True)
        world.produce(world.producer(name), A0, 0, transactional_id=name)
        world.scene.leaderless.add(A0)
        services = limited(services, world, 1)
        for _ in range(3):
            assert await code_of(services, joining(name)) is ErrorCode.CONCURRENT_TRANSACTIONS
        world.scene.leaderless.clear()
        world.settle(5_000)
        assert await code_of(services, joining(name)) is ErrorCode.NONE
        assert await code_of(services, joining("another")) is ErrorCode.POLICY_VIOLATION


async def test_h60_a_request_without_an_available_id_costs_nothing() -> None:
    """E9: while the metadata store is unavailable, every client repeats its request."""
    async with broker() as services:
        ids = ProducerIds(lambda principal: None)
        services = replace(limited(services, World(), 1), producer_ids=ids)
        idempotent = InitProducerIdRequest(None, 0)
        for _ in range(3):
            assert await code_of(services, idempotent) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ids.add(range(1_000))
        codes = [await code_of(services, idempotent) for _ in range(2)]
        assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def joining(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id,
        1_000,
        consumer_group_id=GROUP,
        consumer_group_generation=1,
        assigned_partitions=[AssignedTopic("in", [0])],
    )
