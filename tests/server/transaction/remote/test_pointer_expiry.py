"""The hourly search for pointers to groups that do not have the id any more. It asks little at a
time, and nothing that this broker knows itself."""

from __future__ import annotations

from itertools import count, islice

import pytest

from oncelog_server.coordinator.routing import partition_for
from oncelog_server.deferred import Deferred, Unheard
from oncelog_server.transaction.remote.claims import decide_pointers
from oncelog_server.transaction.remote.pointer_expiry import IN_FLIGHT
from tests.server.transaction.remote.brokers import SHARDS, Brokers
from tests.server.transaction.remote.test_moves import (
    ID,
    G,
    init,
    name_in,
    pointer_of,
)
from tests.server.transaction.world import value_of

MANY = 3 * IN_FLIGHT


def abandoned(number: int = MANY) -> tuple[Brokers, list[str]]:
    """Return a cluster with ids of the same shard as ID that point to G, which has none of them."""
    cluster = Brokers()
    fitting = (name for n in count() if not partition_for(name := f"id-{n}", SHARDS))
    names = list(islice(fitting, number))
    decision = decide_pointers([(name, G) for name in names], wall_ms=cluster.wall())
    transactions = cluster.coordinator(ID).transactions
    assert value_of(transactions.runtime.run(cluster.shard_of(ID).partition, decision))
    return cluster, names


def sweep(cluster: Brokers, before_ms: int | None = None) -> None:
    cluster.coordinator(ID).transactions.expire_pointers(
        cluster.wall() if before_ms is None else before_ms
    )


def left(cluster: Brokers) -> list[str]:
    return cluster.coordinator(ID).transactions.owner(ID)[1].pointers.ids()


def test_a_limited_number_of_questions_is_in_flight() -> None:
    cluster, _ = abandoned()
    sweep(cluster)
    assert len(cluster.flights) == IN_FLIGHT
    seen = []
    while cluster.deliver():
        cluster.timers.run_soon()
        seen.append(len(cluster.flights))
    assert max(seen) <= IN_FLIGHT
    assert cluster.sent == MANY
    assert not left(cluster)


def test_lost_questions_end_a_sweep_and_the_next_sweep_repeats_them() -> None:
    cluster, _ = abandoned()
    sweep(cluster)
    while cluster.flights:
        cluster.flights.pop().lose()
        cluster.timers.run_soon()
    assert (cluster.sent, len(left(cluster))) == (MANY, MANY)
    sweep(cluster)
    cluster.settle()
    assert not left(cluster)


def test_a_sweep_that_has_not_ended_is_not_begun_again() -> None:
    cluster, _ = abandoned()
    sweep(cluster)
    sweep(cluster)
    assert len(cluster.flights) == IN_FLIGHT
    cluster.settle()
    assert cluster.sent == MANY


def test_a_question_that_fails_counts_as_answered_and_its_failure_is_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[Exception] = []
    monkeypatch.setattr(Unheard, "take", logged.append)
    cluster, _ = abandoned()
    sweep(cluster)
    failed, cluster.flights = cluster.flights, []
    for flight in failed:
        flight.answer.abandon(RuntimeError("a defect"))
    assert list(map(str, logged)) == ["a defect"] * IN_FLIGHT
    cluster.settle()
    assert len(left(cluster)) == IN_FLIGHT
    sweep(cluster)
    cluster.settle()
    assert not left(cluster)


def test_a_defect_of_this_broker_ends_only_its_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = abandoned(3)
    cluster.move(cluster.shard_of(G), cluster.leaders[cluster.shard_of(ID)].broker_id)

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        broker = cluster.coordinator(ID).transactions
        patched.setattr(type(broker.runtime), "is_in_service", fail)
        with pytest.raises(RuntimeError, match="a defect"):
            sweep(cluster)
    sweep(cluster)
    cluster.settle()
    assert not left(cluster)


@pytest.mark.parametrize("is_old", [True, False])
def test_only_old_pointers_expire(is_old: bool) -> None:
    cluster, _ = abandoned(2)
    sweep(cluster, cluster.wall() - (not is_old))
    cluster.settle()
    assert len(left(cluster)) == (0 if is_old else 2)
    assert bool(cluster.sent) is is_old


def test_no_coordinator_is_asked_about_an_id_that_is_in_use_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Brokers()
    init(cluster, G)
    cluster.move(cluster.shard_of(G), cluster.leaders[cluster.shard_of(ID)].broker_id)
    sent = cluster.sent
    monkeypatch.setattr(cluster.coordinator(ID).others._calls, "_operations", {})
    sweep(cluster)
    cluster.settle()
    assert cluster.sent == sent
    assert pointer_of(cluster) == G


def test_a_shard_that_has_moved_meanwhile_writes_nothing() -> None:
    cluster, _ = abandoned(3)
    sweep(cluster)
    held = [(flight, flight.answer) for flight in cluster.flights]
    for flight, _answer in held:
        flight.answer = Deferred()
    cluster.settle()
    cluster.move(cluster.shard_of(ID), cluster.leaders[cluster.shard_of(name_in(2))].broker_id)
    for flight, answer in held:
        flight.answer.on_complete(answer.complete)
    cluster.settle()
    assert len(left(cluster)) == 3


def test_looks_at_many_pointers_in_use_take_several_turns() -> None:
    cluster = Brokers(steps_per_slice=1)
    for number in range(3):
        init(cluster, G, name_in(0, f"used-{number}"))
    cluster.move(cluster.shard_of(G), cluster.leaders[cluster.shard_of(ID)].broker_id)
    init(cluster, None, ID)
    sweep(cluster)
    assert not cluster.slices.is_idle
    cluster.settle()
    assert cluster.slices.is_idle
    assert len(left(cluster)) == 3
