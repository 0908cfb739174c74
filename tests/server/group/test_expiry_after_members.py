"""The retention of a group's offsets counts from the time at which the group became empty
(KIP-211)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.config import GroupConfig
from tests.server.group.driver import Driver
from tests.server.group.entries import subscription

HOUR_MS = 3_600_000
CHECK_MS = 600_000
SESSION_MS = 600_000
OLD = ("t", 0, 5)


def leave(driver: Driver, member: str) -> None:
    assert driver.leave(member).value.members[0].error_code == 0


def time_out(driver: Driver, member: str) -> None:
    driver.advance(SESSION_MS)
    assert driver.heartbeat(member, 1) == 25


def leave_before_a_crash(driver: Driver, member: str) -> None:
    leave(driver, member)
    driver.crash()


@pytest.mark.parametrize("go", [leave, time_out, leave_before_a_crash])
def test_even_old_offsets_stay_for_the_retention_after_the_group_became_empty(
    go: Callable[[Driver, str], None],
) -> None:
    driver = Driver(GroupConfig(offsets_retention_ms=HOUR_MS))
    generation_id, (member,) = driver.stable_group(
        "a", protocols={"range": subscription("t")}, session_ms=SESSION_MS
    )
    committed_ms = driver.now_ms
    driver.commit(OLD, member_id=member, generation_id=generation_id)
    while driver.now_ms < committed_ms + 3 * HOUR_MS:
        driver.advance(SESSION_MS // 2)
        assert driver.heartbeat(member, generation_id) == 0
    go(driver, member)
    empty_ms = driver.now_ms
    assert driver.state() is GroupState.EMPTY
    driver.advance(2 * CHECK_MS)
    assert driver.fetch("t", 0) == (5, 0)
    driver.advance(empty_ms + HOUR_MS - 1 - driver.now_ms)
    assert driver.fetch("t", 0) == (5, 0)
    driver.advance(CHECK_MS + 1)
    assert driver.fetch("t", 0) == (-1, 0)
    assert driver.state() is GroupState.DEAD


@pytest.mark.parametrize("synced", [False, True], ids=["joining", "syncing"])
def test_no_offset_expires_while_the_members_of_its_group_rebalance(synced: bool) -> None:
    driver = Driver(GroupConfig(offsets_retention_ms=HOUR_MS))
    options: dict[str, Any] = {"session_ms": SESSION_MS, "rebalance_ms": 3 * HOUR_MS}
    generation_id, (member, other) = driver.stable_group("a", "b", **options)
    driver.commit(OLD, member_id=member, generation_id=generation_id)
    joining = driver.join(member, **options)
    if synced:
        driver.join(other, **options)
        assert joining.value.error_code == 0
    begun_ms = driver.now_ms
    while driver.now_ms < begun_ms + 2 * HOUR_MS:
        driver.advance(SESSION_MS // 2)
        # Both members keep their sessions, so no session timeout ends the rebalance.
        for name in (member, other):
            driver.heartbeat(name, driver.group().generation_id)
    waited_for = GroupState.COMPLETING_REBALANCE if synced else GroupState.PREPARING_REBALANCE
    assert driver.state() is waited_for
    # No member is subscribed to the topic. In a stable group the offset would have expired.
    assert driver.fetch("t", 0) == (5, 0)
