"""Transactional ids as operators see them (KIP-664)."""

from __future__ import annotations

from oncelog_protocol.messages.describe_transactions import TopicData
from oncelog_protocol.pattern import Pattern
from oncelog_server.transaction.listing import (
    TransactionFilter,
    describe_transaction,
    list_transactions,
)
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1, P2, Driver


def listed(driver: Driver, wanted: TransactionFilter) -> list[str]:
    rows = list_transactions(driver.shard.transactions.values(), wanted, wall_ms=driver.wall_ms)
    return [row.transactional_id for row in rows]


def several() -> Driver:
    """An idle id, and one with a transaction that is open for 500 ms."""
    driver = Driver()
    driver.init(transactional_id="idle")
    who = driver.init().value
    driver.add(who.producer_id, who.producer_epoch, P0)
    driver.now_ms += 500
    return driver


def test_every_filter_narrows_the_list() -> None:
    driver = several()
    assert listed(driver, TransactionFilter()) == ["idle", ID]
    assert listed(driver, TransactionFilter(states=frozenset({State.ONGOING}))) == [ID]
    assert listed(driver, TransactionFilter(states=frozenset())) == []
    producer_id = driver.metadata.producer_id
    assert listed(driver, TransactionFilter(producer_ids=frozenset({producer_id}))) == [ID]
    assert listed(driver, TransactionFilter(longer_than_ms=499)) == ["idle", ID]
    assert listed(driver, TransactionFilter(longer_than_ms=500)) == ["idle"]
    assert listed(driver, TransactionFilter(pattern=Pattern("i.*"))) == ["idle"]


def test_what_is_not_committed_yet_or_has_moved_away_is_not_listed() -> None:
    driver = several()
    driver.holds_commits = True
    driver.init(transactional_id="new")
    assert listed(driver, TransactionFilter()) == ["idle", ID]
    driver = several()
    driver.put(State.DEAD)
    assert listed(driver, TransactionFilter()) == ["idle"]


def test_a_decided_transaction_is_described_with_what_still_waits_for_a_marker() -> None:
    driver = Driver(finishes=False)
    who = driver.init().value
    driver.add(who.producer_id, who.producer_epoch, P0, P1, P2)
    described = describe_transaction(driver.live, now_ms=driver.now_ms)
    assert described.topics == [TopicData("a", [0, 1]), TopicData("b", [0])]
    driver.end(who.producer_id, who.producer_epoch, True)
    driver.write_markers(ID, at_most=1)
    described = describe_transaction(driver.live, now_ms=driver.now_ms)
    assert described.transaction_state == "PrepareCommit"
    assert described.topics == [TopicData("a", [1]), TopicData("b", [0])]
    assert described.time_left_ms == -1


def test_w1_a_transaction_in_two_phases_has_no_time_to_its_timeout() -> None:
    driver = Driver()
    who = driver.init(two_phase=True).value
    driver.add(who.producer_id, who.producer_epoch, P0)
    assert describe_transaction(driver.live, now_ms=driver.now_ms).time_left_ms == -1
