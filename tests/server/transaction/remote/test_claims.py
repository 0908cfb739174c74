"""A claim is forgotten when it has ended, however it ends."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import Operation
from oncelog_server.deferred import Deferred
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.transaction.commands.expiry import decide_expiry
from oncelog_server.transaction.pointers import NO_POINTER
from oncelog_server.transaction.remote.pending_claims import PendingClaims
from oncelog_server.transaction.shard import TransactionShard
from tests.server.transaction.remote.brokers import Brokers
from tests.server.transaction.remote.test_moves import (
    BUSY,
    ID,
    NONE,
    G,
    H,
    ask,
    begin,
    code_of,
    init,
)


def shard_of(cluster: Brokers, group_id: str = G) -> TransactionShard:
    return cluster.coordinator(group_id).transactions.owner(group_id)[1]


def test_a_group_remembers_the_claim_of_an_id_that_it_has() -> None:
    cluster = Brokers()
    init(cluster, G)
    assert shard_of(cluster).pointers.claim_of(ID) > NO_POINTER


@pytest.mark.parametrize("fails", ["refused", "defect"])
def test_the_claim_of_an_init_that_fails_is_forgotten(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Brokers()
    transactions = cluster.coordinator(G).transactions

    def fail(principal: str) -> int:
        if fails == "refused":
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise RuntimeError("a defect")

    response = ask(cluster, G)
    assert isinstance(response, Deferred)
    response.on_abandon(lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(transactions._groups, "_new_producer_id", fail)
        cluster.settle()
    assert response.done is (fails == "refused")
    assert shard_of(cluster).pointers._claims == {}
    init(cluster, G)
    assert cluster.owners(ID) == [G]


def test_the_claim_of_an_init_that_is_not_written_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Brokers()
    shard, log = shard_of(cluster), cluster.partitions[cluster.shard_of(G)]

    def too_few(partition: Partition) -> None:
        if partition is log:
            assert shard.pointers.claim_of(ID) > NO_POINTER
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS)

    response = ask(cluster, G)
    with monkeypatch.context() as below_min_isr:
        below_min_isr.setattr(Partition, "check_in_sync_replicas", too_few)
        cluster.settle()
    assert code_of(response) is not NONE
    assert shard.pointers._claims == {}


def test_the_claim_of_an_id_that_expires_is_forgotten() -> None:
    """A departure that was sent before the claim finds, when it arrives, that the id has left the
    group."""
    cluster = Brokers()
    init(cluster, G)
    transactions, shard = cluster.coordinator(G).transactions, shard_of(cluster)
    decision = decide_expiry([shard.transactions[ID]], shard.groups)
    transactions.runtime.run(cluster.shard_of(G).partition, decision)
    cluster.settle()
    assert shard.pointers._claims == {}
    init(cluster, H)
    assert cluster.owners(ID) == [H]


def test_a_call_that_is_abandoned_ends_its_claim() -> None:
    cluster = Brokers()
    response = ask(cluster, G)
    assert isinstance(response, Deferred)
    response.on_abandon(lambda: None)
    (flight,) = cluster.flights
    cluster.flights.clear()
    flight.answer.abandon(RuntimeError("a defect"))
    assert response.abandoned
    init(cluster, G)


def test_a_defect_in_a_call_to_this_broker_ends_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Brokers()
    cluster.move(cluster.shard_of(ID), cluster.leaders[cluster.shard_of(G)].broker_id)

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        calls = cluster.coordinator(G).others._calls
        patched.setattr(calls, "_operations", {Operation.CLAIM: fail})
        with pytest.raises(RuntimeError, match="a defect"):
            ask(cluster, G)
    init(cluster, G)


def test_the_end_of_a_former_claim_does_not_end_a_newer_one() -> None:
    """A departure withdraws the claim of G, and G claims the id again. Then the call of the first
    claim is abandoned."""
    cluster = Brokers()
    first = ask(cluster, G)
    assert isinstance(first, Deferred)
    first.on_abandon(lambda: None)
    (flight,) = cluster.flights
    answer, flight.answer = flight.answer, Deferred()
    cluster.settle()
    init(cluster, H)
    second = ask(cluster, G)
    answer.abandon(RuntimeError("a defect"))
    assert first.abandoned
    assert code_of(ask(cluster, G)) is BUSY, "the second claim is in flight"
    cluster.settle()
    assert code_of(second) is NONE
    assert cluster.owners(ID) == [G]


def test_a_withdrawn_claim_has_ended() -> None:
    claims = PendingClaims()
    first = claims.begin("t", "g")
    assert first is not None
    assert claims.begin("t", "g") is None
    claims.withdraw("t", "g")
    second = claims.begin("t", "g")
    assert second is not None
    assert not claims.end("t", "g", first)
    assert claims.end("t", "g", second)
    assert not claims.end("t", "g", second)


def test_an_id_that_leaves_and_comes_back_keeps_its_newest_claim() -> None:
    cluster = Brokers()
    init(cluster, G)
    former = shard_of(cluster).pointers.claim_of(ID)
    init(cluster, H)
    producer = init(cluster, G)
    assert shard_of(cluster).pointers.claim_of(ID) > former
    assert begin(cluster, G, producer) is NONE
