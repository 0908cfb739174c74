"""The transactional ids that ListTransactions lists (KIP-664)."""

from __future__ import annotations

from oncelog_protocol.pattern import Pattern
from oncelog_server.transaction.listing import TransactionFilter
from oncelog_server.transaction.states import State
from oncelog_server.transaction.views import views_of
from tests.server.transaction.driver import ID, P0, Driver


def listed(driver: Driver, wanted: TransactionFilter) -> list[str]:
    views = views_of(driver.shard.transactions.values())
    return [view.transactional_id for view in views if wanted.has(view, wall_ms=driver.wall_ms)]


def several() -> Driver:
    """Return an idle id, and an id with a transaction that has been open for 500 ms."""
    driver = Driver()
    driver.init(transactional_id="idle")
    producer = driver.init().value
    driver.add(producer.producer_id, producer.producer_epoch, P0)
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
