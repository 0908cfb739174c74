"""Metrics of coordinators: transactional ids by state, markers in the queue, ends of transactions
by cause, load times."""

from __future__ import annotations

import pytest

from oncelog_server.coordinator.load_times import LoadTimes
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.coordinators import group_lines, transaction_lines
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import FenceCause
from tests.harness.scraping import Scraped, scraped
from tests.server.transaction.world import DATA, World

IDS = metrics.TRANSACTIONAL_IDS.name
DECIDED = metrics.TRANSACTIONS.name


def page_of(world: World) -> Scraped:
    return scraped(transaction_lines(world.transactions.views, world.wall()))


@pytest.fixture
def world() -> World:
    return World()


def test_transactional_ids_are_counted_by_state(world: World) -> None:
    for name in ("empty", "open", "committed", "aborted"):
        producer = world.producer(name)
        if name != "empty":
            world.add(producer, DATA[0], transactional_id=name)
        if name in ("committed", "aborted"):
            world.end(producer, name == "committed", transactional_id=name)
    page = page_of(world)
    assert {
        labels["state"]: page.value(IDS, **labels)
        for labels in page.labels(IDS)
        if page.value(IDS, **labels)
    } == {"Empty": 1, "Ongoing": 1, "CompleteCommit": 1, "CompleteAbort": 1}
    assert len(page.labels(IDS)) == 8, "states without an id have a line too"


def test_the_oldest_open_transaction_ages_until_it_is_decided(world: World) -> None:
    assert page_of(world).value(metrics.OLDEST_TRANSACTION.name) == 0
    producer = world.producer()
    world.add(producer, DATA[0])
    world.settle(advance_ms=30_000)
    assert page_of(world).value(metrics.OLDEST_TRANSACTION.name) == 30
    world.end(producer, True)
    assert page_of(world).value(metrics.OLDEST_TRANSACTION.name) == 0


def test_markers_that_find_no_leader_are_in_the_queue(world: World) -> None:
    world.scene.leaderless.add(DATA[0])
    producer = world.producer()
    world.add(producer, *DATA[:2])
    world.end(producer, True)
    page = page_of(world)
    assert page.value(metrics.MARKERS_PENDING.name) == 1
    assert page.value(metrics.UNKNOWN_DESTINATION.name) == 1
    world.scene.leaderless.clear()
    world.settle(advance_ms=1_000)
    page = page_of(world)
    assert page.value(metrics.MARKERS_PENDING.name) == 0
    assert page.value(metrics.UNKNOWN_DESTINATION.name) == 0
    assert page.value(metrics.UNAPPENDED.name) == 0


def test_a_decided_transaction_ages_until_it_is_complete(world: World) -> None:
    age = metrics.OLDEST_DECISION.name
    world.scene.leaderless.add(DATA[0])
    for name in ("t", "u"):
        producer = world.producer(name)
        world.add(producer, *DATA[:2], transactional_id=name)
        world.settle(advance_ms=10_000)
        assert page_of(world).value(age) == (0 if name == "t" else 10), "not decided yet"
        world.end(producer, True, transactional_id=name)
    world.settle(advance_ms=20_000)
    page = page_of(world)
    assert (page.value(age), page.value(metrics.MARKERS_PENDING.name)) == (30, 2)
    world.scene.leaderless.clear()
    world.settle(advance_ms=1_000)
    assert page_of(world).value(age) == 0


def test_decisions_are_counted_by_outcome_and_cause(world: World) -> None:
    for committed in (True, True, False):
        producer = world.producer()
        world.add(producer, DATA[0])
        world.end(producer, committed)
    # A newer instance fences the producer.
    producer = world.producer()
    world.add(producer, DATA[0])
    producer = world.producer()
    # The transaction times out.
    world.add(producer, DATA[0])
    world.settle(advance_ms=60_001)
    assert world.transactions.abort_overdue(10) == ["t"]
    page = page_of(world)
    counts = {
        (labels["outcome"], labels["cause"]): page.value(DECIDED, **labels)
        for labels in page.labels(DECIDED)
    }
    assert {decision: count for decision, count in counts.items() if count} == {
        ("commit", "client"): 2,
        ("abort", "client"): 1,
        ("abort", "newer_instance"): 1,
        ("abort", "timed_out"): 1,
    }
    assert {cause for _, cause in counts} == {
        "client",
        *(cause.name.lower() for cause in FenceCause),
    }
    assert page.value(metrics.FENCED.name, cause="timed_out") == 1


def test_an_operators_abort_by_marker_is_counted_apart_from_the_clients(world: World) -> None:
    producer_id, epoch = world.producer()
    world.add((producer_id, epoch), DATA[0])
    world.transactions.operator_markers.aborted(producer_id, epoch, Client("admin", "/127.0.0.1"))
    world.end((producer_id, epoch), False)
    page = page_of(world)
    assert page.value(DECIDED, outcome="abort", cause="operator") == 1
    assert page.value(DECIDED, outcome="abort", cause="client") == 1


def test_a_refused_request_of_a_fenced_producer_is_counted_by_the_cause_of_the_fence(
    world: World,
) -> None:
    producer = world.producer()
    world.add(producer, DATA[0])
    world.producer()
    world.end(producer, True)
    page = page_of(world)
    assert page.value(metrics.REFUSED.name, cause="newer_instance") == 1
    assert page.value(metrics.REFUSED.name, cause="unknown") == 0


def test_decisions_before_a_restart_are_not_counted_again(world: World) -> None:
    world.scene.leaderless.add(DATA[0])
    producer = world.producer()
    world.add(producer, DATA[0])
    world.end(producer, True)
    after = world.crash()
    after.settle(advance_ms=1_000)
    page = page_of(after)
    assert page.value(metrics.MARKERS_PENDING.name) == 0, "the broker has written the marker"
    assert page.value(DECIDED, outcome="commit", cause="client") == 0


def test_two_phase_transactions_are_counted_while_they_are_open(world: World) -> None:
    producer = world.producer(two_phase=True)
    world.add(producer, DATA[0])
    assert page_of(world).value(metrics.TWO_PHASE_TRANSACTIONS.name) == 1
    world.end(producer, True)
    assert page_of(world).value(metrics.TWO_PHASE_TRANSACTIONS.name) == 0


def test_groups_and_committed_offsets_are_counted(world: World) -> None:
    producer = world.producer()
    world.commit_offset(producer, 5)
    page = scraped(group_lines(world.groups.views))
    assert page.value(metrics.GROUPS.name) == 1
    assert page.value("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1
    assert page.value(metrics.GROUP_OFFSETS.name) == 0, (
        "the offset is pending until the transaction ends"
    )


def test_load_times_cover_all_loaded_partitions() -> None:
    times = LoadTimes()
    assert (times.longest_ms, times.average_ms) == (0, 0)
    for took_ms in (4, 10, 1):
        times.add(took_ms)
    assert (times.count, times.longest_ms, times.average_ms) == (3, 10, 5)
