"""The coordinator's views of its transactional ids (KIP-664)."""

from __future__ import annotations

import pytest

from oncelog_server.refusal import Refused
from oncelog_server.slices import at_its_end
from oncelog_server.transaction.states import State
from oncelog_server.transaction.views import details_of, views_of
from oncelog_server.views.loads import LoadView
from tests.server.transaction.driver import ID, P0, P1, P2, Driver
from tests.server.transaction.world import DATA, World


def test_an_uncommitted_change_is_not_shown() -> None:
    world = World(flush_on_ack=True)
    world.slow.add(world.transaction_logs[0])
    world.init("new")
    assert list(world.transactions.views.all()) == []
    world.hurry()
    world.settle()
    assert [view.transactional_id for view in world.transactions.views.all()] == ["new"]


def test_an_id_in_state_dead_is_not_shown() -> None:
    driver = Driver()
    driver.init(transactional_id="idle")
    driver.init()
    assert shown(driver) == ["idle", ID]
    driver.put(State.DEAD)
    assert shown(driver) == ["idle"]


def shown(driver: Driver) -> list[str]:
    return [view.transactional_id for view in views_of(driver.shard.transactions.values())]


def test_a_row_shows_the_moment_at_which_it_is_read() -> None:
    """The coordinator reads a long list in slices. Each row shows the id at the moment of its
    slice."""
    world = World()
    for name in ("a", "b"):
        world.producer(name)
    views = world.transactions.views.all()
    assert next(views).state is State.EMPTY
    world.add(world.producer("b"), DATA[0], transactional_id="b")
    assert next(views).state is State.ONGOING


def test_a_view_does_not_change_with_the_transaction() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, DATA[0])
    before = world.transactions.views.details("t")
    world.end(producer, True)
    assert (before.state, before.partitions) == (State.ONGOING, (DATA[0],))
    after = world.transactions.views.details("t")
    assert (after.state, after.partitions) == (State.COMPLETE_COMMIT, ())


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(Refused):
        World().transactions.views.details("unknown")


def test_a_decided_transaction_is_described_with_the_partitions_without_a_marker() -> None:
    driver = Driver(finishes=False)
    producer = driver.init().value
    driver.add(producer.producer_id, producer.producer_epoch, P0, P1, P2)
    assert details_of(driver.live, now_ms=driver.now_ms).partitions == (P0, P1, P2)
    driver.end(producer.producer_id, producer.producer_epoch, True)
    driver.write_markers(ID, at_most=1)
    described = details_of(driver.live, now_ms=driver.now_ms)
    assert described.state is State.PREPARE_COMMIT
    assert described.partitions == (P1, P2)
    assert described.time_left_ms is None


def test_w1_a_two_phase_transaction_is_described_without_a_remaining_time() -> None:
    driver = Driver()
    producer = driver.init(two_phase=True).value
    driver.add(producer.producer_id, producer.producer_epoch, P0)
    assert details_of(driver.live, now_ms=driver.now_ms).time_left_ms is None


def test_a_transaction_past_its_timeout_has_no_time_left() -> None:
    driver = Driver()
    producer = driver.init(timeout_ms=1_000).value
    driver.add(producer.producer_id, producer.producer_epoch, P0)
    times = [
        details_of(driver.live, now_ms=driver.now_ms + passed_ms).time_left_ms
        for passed_ms in (0, 999, 1_000, 1_001)
    ]
    assert times == [1_000, 1, 0, 0]


def test_the_oldest_open_transaction_starts_when_it_adds_its_first_partition() -> None:
    world = World()
    views = world.transactions.views
    assert at_its_end(views.totals()).oldest_start_ms is None
    begun_ms = world.wall()
    for name in ("first", "second", "third"):
        world.add(world.producer(name), DATA[0], transactional_id=name)
        world.settle(1_000)
    assert at_its_end(views.totals()).oldest_start_ms == begun_ms


def test_the_maximum_and_the_average_load_time_are_shown() -> None:
    world = World(leads=False)
    assert world.transactions.views.outcomes().loads == LoadView(0, 0)
    for took_ms in (30, 10):
        world.transactions.runtime.load_times.add(took_ms)
    assert world.transactions.views.outcomes().loads == LoadView(30, 20)
