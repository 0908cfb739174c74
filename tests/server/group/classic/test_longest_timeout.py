"""If members have different timeouts, the join and sync phases last for the longest timeout
(KIP-62)."""

from __future__ import annotations

from itertools import permutations

import pytest

from oncelog_server.group.classic.states import GroupState
from tests.server.group.driver import Driver

SESSION_MS = 1_000_000
LONGEST_MS = 90_000
ORDERS = list(permutations((10_000, 40_000, LONGEST_MS)))


def stable(driver: Driver, timeouts_ms: tuple[int, ...]) -> tuple[int, list[str]]:
    """Return the generation and the members of a stable group with one member for each rebalance
    timeout."""
    joins = [
        driver.join_twice(client_id=f"{ms}", session_ms=SESSION_MS, rebalance_ms=ms)
        for ms in timeouts_ms
    ]
    while not joins[0].done:
        driver.advance(1_000)
    answers = [join.value for join in joins]
    members = [answer.member_id for answer in answers]
    generation_id, leader = answers[0].generation_id, answers[0].leader
    for member in sorted(members, key=lambda member: member == leader):
        given = dict.fromkeys(members, b"x") if member == leader else None
        driver.sync(member, generation_id, given)
    assert driver.state() is GroupState.STABLE
    return generation_id, members


def rejoin(driver: Driver, member: str, timeout_ms: int, metadata: bytes = b"new") -> None:
    driver.join(
        member, session_ms=SESSION_MS, rebalance_ms=timeout_ms, protocols={"range": metadata}
    )


@pytest.mark.parametrize("timeouts_ms", ORDERS)
def test_a_join_phase_waits_for_the_longest_rebalance_timeout(timeouts_ms: tuple[int, ...]) -> None:
    driver = Driver()
    _, members = stable(driver, timeouts_ms)
    # The member with the shortest timeout starts the rebalance, and no other member joins.
    first = members[timeouts_ms.index(min(timeouts_ms))]
    rejoin(driver, first, min(timeouts_ms))
    driver.advance(LONGEST_MS - 1)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert set(driver.group().members) == set(members)
    driver.advance(1)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert set(driver.group().members) == {first}


@pytest.mark.parametrize("timeouts_ms", ORDERS)
def test_a_sync_phase_waits_for_the_longest_rebalance_timeout(timeouts_ms: tuple[int, ...]) -> None:
    driver = Driver()
    generation_id, members = stable(driver, timeouts_ms)
    for member, timeout_ms in zip(members, timeouts_ms, strict=True):
        rejoin(driver, member, timeout_ms)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    driver.advance(LONGEST_MS - 1)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert driver.group().generation_id == generation_id + 1
    driver.advance(1)
    # No member has synced, so the group has removed all members.
    assert driver.group().members == {}


def test_a_rebalance_timeout_that_changes_with_a_join_counts_from_then_on() -> None:
    driver = Driver()
    _, (first, second) = stable(driver, (10_000, 20_000))
    rejoin(driver, first, LONGEST_MS)
    driver.join(second, session_ms=SESSION_MS, rebalance_ms=20_000)
    rejoin(driver, second, 20_000, b"newer")
    driver.advance(LONGEST_MS - 1)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.advance(1)
    assert set(driver.group().members) == {second}


def test_a_coordinator_that_loads_the_group_knows_its_rebalance_timeouts() -> None:
    driver = Driver()
    _, members = stable(driver, (10_000, LONGEST_MS))
    driver.crash()
    rejoin(driver, members[0], 10_000)
    driver.advance(LONGEST_MS - 1)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.advance(1)
    assert set(driver.group().members) == {members[0]}
