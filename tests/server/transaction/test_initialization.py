"""The quota of new transactional ids. `tests/server/handlers` has more tests of the quota, and
tests of InitProducerId with the generation of a group."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.initialization import Initialization
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota
from oncelog_server.transaction.producer_ids import ProducerIds
from tests.server.transaction.world import GROUP, TXN_LOG, World, value_of


def code_of(
    world: World, quota: ProducerIdQuota, transactional_id: str, timeout_ms: int = 1_000
) -> ErrorCode:
    found = initialization(world, quota, transactional_id, timeout_ms).run()
    world.settle()
    return ErrorCode(value_of(found).code)


def initialization(
    world: World,
    quota: ProducerIdQuota,
    transactional_id: str,
    timeout_ms: int = 1_000,
    membership: GroupAssignment | None = None,
    principal: str = "",
    ids: ProducerIds | None = None,
) -> Initialization:
    client = Client("client", "/10.0.0.1", principal)
    return Initialization(
        world.transactions,
        world.groups,
        quota,
        ProducerIds(lambda principal: None) if ids is None else ids,
        world.now,
        client,
        InitProducerId(transactional_id, timeout_ms, caller=client),
        membership,
    )


def test_h60_only_a_new_id_counts_in_the_quota() -> None:
    world, quota = World(), ProducerIdQuota(1)
    assert code_of(world, quota, "known") is ErrorCode.NONE
    assert code_of(world, quota, "known") is ErrorCode.NONE
    with pytest.raises(Refused) as refused:
        code_of(world, quota, "new")
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_h49_h60_a_takeover_by_another_principal_counts_in_its_quota() -> None:
    """Two principals that take turns with one transactional id get a producer id each time."""
    world, quota = World(), ProducerIdQuota(2)

    def init(principal: str) -> ErrorCode:
        response = initialization(world, quota, "t", principal=principal).run()
        world.settle()
        return ErrorCode(value_of(response).code)

    assert [init("User:alice") for _ in range(5)] == [ErrorCode.NONE] * 5
    turns = [init(principal) for principal in ("User:bob", "User:alice")]
    assert turns == [ErrorCode.NONE] * 2
    assert init("User:bob") is ErrorCode.NONE
    with pytest.raises(Refused) as refused:
        init("User:alice")
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def waiting_for_a_block(world: World) -> ProducerIds:
    """Return a ProducerIds that has no block of ids yet, and let the coordinator take its ids from
    it."""
    ids = ProducerIds(lambda principal: None)
    world.transactions.new_producer_id = ids.take
    return ids


def test_h60_requests_that_wait_for_a_block_count_once_for_one_new_id() -> None:
    world, quota = World(), ProducerIdQuota(1)
    ids = waiting_for_a_block(world)
    responses = [
        initialization(world, quota, "t", principal="User:alice", ids=ids).run() for _ in range(2)
    ]
    world.owners[5_000] = "User:alice"
    ids.add(range(5_000, 6_000), "User:alice")
    world.settle()
    assert [value_of(response).code for response in responses] == [ErrorCode.NONE] * 2
    assert len(quota) == 1


def test_a_request_that_waits_for_a_block_is_refused_if_its_group_rebalances_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The generation is checked again when the id is initialized, after the wait for the block."""
    world = World()
    ids = waiting_for_a_block(world)
    monkeypatch.setattr(world.groups, "live_generation", lambda group_id: 1)
    membership = GroupAssignment(GROUP, 1, frozenset())
    response = initialization(
        world, ProducerIdQuota(1), "t", membership=membership, principal="User:alice", ids=ids
    ).run()
    monkeypatch.setattr(world.groups, "live_generation", lambda group_id: 2)
    ids.add(range(5_000, 6_000), "User:alice")
    world.settle()
    assert value_of(response).code is ErrorCode.ILLEGAL_GENERATION


def test_h60_an_id_with_an_unknown_outcome_still_counts_in_the_quota() -> None:
    """This broker is no longer the coordinator of the id, but the id's record may be committed."""
    world, quota = World(flush_on_ack=True), ProducerIdQuota(1)
    response = initialization(world, quota, "t").run()
    world.transactions.resign(0)
    world.partitions[TXN_LOG].resign()
    assert value_of(response).code is ErrorCode.NOT_COORDINATOR
    assert len(quota) == 1


def test_h60_a_refused_id_does_not_count_in_the_quota() -> None:
    world, quota = World(), ProducerIdQuota(1)
    assert code_of(world, quota, "t", timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert code_of(world, quota, "t") is ErrorCode.NONE


def test_h60_an_id_of_another_broker_does_not_count_in_the_quota() -> None:
    """Another broker coordinates the id. This broker coordinates the id's group."""
    world, quota = World(shards=2), ProducerIdQuota(1)
    index, _ = world.transactions.owner(GROUP)
    elsewhere = next(name for name in "tuvw" if world.transactions.owner(name)[0] != index)
    world.transactions.resign(1 - index)
    joining = initialization(
        world, quota, elsewhere, membership=GroupAssignment(GROUP, 1, frozenset())
    )
    with pytest.raises(Refused) as refused:
        joining.run()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert len(quota) == 0
