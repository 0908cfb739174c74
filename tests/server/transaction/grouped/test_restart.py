"""A group that was deleted and created again, so that its generations begin at 1 again
(`grouped/restart.py`)."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.grouped import restart as group_restart
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0
from tests.server.transaction.grouped.driver import GROUP, IN0, IN1, GroupDriver

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


def start_over(driver: GroupDriver) -> ErrorCode:
    decision = driver.decide(
        group_restart.decide_start_over, driver.shard, GROUP, None, wall_ms=driver.wall_ms
    )
    return driver.run(decision).value.code


def test_open_transactions_are_aborted_and_every_older_producer_is_fenced() -> None:
    driver = GroupDriver(finishes=False)
    working, idle = driver.member("a", 57, IN0), driver.member("b", 57, IN1)
    driver.begin(working, P0)
    for _ in range(2):
        assert start_over(driver) is BUSY
        assert driver.state_of("a") is State.PREPARE_ABORT
    driver.finish("a")
    assert start_over(driver) is BUSY
    assert not driver.shard.groups.memberships
    for member in (working, idle):
        late = driver.add(*member[1:], P0, transactional_id=member.transactional_id).value
        assert late.code is ErrorCode.PRODUCER_FENCED
    driver.crash()
    assert driver.shard.groups.newest_generation(GROUP) == -1
    assert driver.join("a", 1, IN0).value.code is ErrorCode.NONE


def test_an_id_that_was_fenced_at_its_last_epoch_holds_up_no_other() -> None:
    driver = GroupDriver()
    driver.member("a", 57, IN0)
    driver.member(ID, 57, IN1)
    memberships = driver.log[:]
    driver.put(State.COMPLETE_ABORT, producer_epoch=LAST_PRODUCER_EPOCH + 1)
    assert len(driver.log) == len(memberships) + 1
    assert start_over(driver) is BUSY
    assert not driver.shard.groups.memberships
    assert not any(live.is_busy for live in driver.shard.transactions.values())
    for name in ("a", ID):
        assert driver.join(name, 1, IN0).value.code is ErrorCode.NONE


def test_if_a_record_cannot_be_encoded_no_other_id_stays_busy() -> None:
    driver = GroupDriver()
    for name in ("a", "b"):
        driver.begin(driver.member(name, 57), P0)
    live = driver.live_of("b")
    live.metadata = replace(live.metadata, timeout_ms=1 << 40)
    with pytest.raises(struct.error):
        start_over(driver)
    assert not driver.live_of("a").is_busy
    with pytest.raises(struct.error):
        driver.join("c", 58, IN0)
    assert not driver.live_of("a").is_busy
    assert driver.shard.get("c") is None


def test_very_many_ids_leave_the_group_in_several_batches() -> None:
    driver = GroupDriver(compares=False)
    names = [f"t-{number:04}" for number in range(group_restart.AT_ONCE + 3)]
    for name in names:
        driver.member(name, 57)
    start_over(driver)
    assert driver.shard.groups.ids_of(GROUP) == names[group_restart.AT_ONCE :]
    assert driver.shard.groups.newest_generation(GROUP) == 57
    start_over(driver)
    assert driver.shard.groups.newest_generation(GROUP) == -1
