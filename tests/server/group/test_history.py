"""The reason that a group has for refusing a member: the cause, the time, and the client that
caused it."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.history import (
    DEPARTURES,
    GENERATIONS,
    KEPT_NAME,
    Dismissal,
    History,
    Requester,
    Why,
)
from tests.server.group.driver import GROUP, Driver
from tests.server.group.entries import subscription

HOST = "/127.0.0.1"
UNKNOWN_MEMBER, OLDER = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION


def dismissal(
    driver: Driver, member_id: str, generation_id: int, instance: str | None = None
) -> Dismissal | None:
    """Return the reason why a TxnOffsetCommit of this member is refused, None if it is accepted."""
    return driver.shard.dismissal(
        TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=GROUP,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
    )


def alone(driver: Driver, client_id: str = "client", **options: Any) -> tuple[str, int]:
    """Return the only member of a group and its generation, after the initial delay."""
    answer = driver.join(version=3, client_id=client_id, **options)
    driver.advance(driver.config.group_initial_rebalance_delay_ms)
    joined = answer.value
    driver.sync(joined.member_id, joined.generation_id, {joined.member_id: b"a"})
    return joined.member_id, joined.generation_id


def test_a_current_member_is_not_refused() -> None:
    driver = Driver()
    assert dismissal(driver, *alone(driver)) is None
    assert dismissal(driver, "", -1) is None, (
        "a request without a member id and a generation is accepted"
    )


@pytest.mark.parametrize("crashes", [False, True])
def test_the_reason_newer_generation_names_the_client_that_began_it(crashes: bool) -> None:
    """The group's record has the time at which the generation began, but not the client. So only
    the time survives a restart."""
    driver = Driver()
    member, generation = alone(driver, "first")
    driver.advance(500)
    driver.join(version=3, client_id="second")
    driver.advance(100)
    again = driver.join(member, version=3, client_id="first").value
    began_ms = driver.wall_ms
    assert again.generation_id == generation + 1
    driver.sync(again.leader, again.generation_id, {member: b"a"})
    driver.advance(700)
    if crashes:
        driver.crash()
    by = None if crashes else Requester("second", HOST)
    assert dismissal(driver, member, generation) == Dismissal(Why.NEWER_GENERATION, began_ms, by)


def test_the_reason_is_the_first_newer_generation_and_not_a_later_one() -> None:
    driver = Driver()
    member, generation = alone(driver, "first")
    answers = []
    for name in ("second", "third"):
        driver.advance(500)
        driver.join(member, version=3, client_id=name, protocols={"range": subscription(name)})
        answers.append(driver.wall_ms)
    found = dismissal(driver, member, generation)
    assert found is not None
    assert (found.at_ms, found.by) == (answers[0], Requester("second", HOST))


def test_a_generation_that_a_session_timeout_began_names_no_client() -> None:
    driver = Driver()
    generation, (first, second) = driver.stable_group("a", "b")
    driver.advance(5_000)
    assert driver.heartbeat(first, generation) == ErrorCode.NONE
    driver.advance(6_000)
    assert dismissal(driver, second, generation) == Dismissal(
        Why.SESSION_TIMED_OUT, driver.wall_ms - 1_000
    )
    driver.join(first, version=3)
    found = dismissal(driver, first, generation)
    assert found is not None
    assert (found.why, found.by) == (Why.NEWER_GENERATION, None)


def test_the_member_that_left_and_the_cause() -> None:
    driver = Driver()
    member, generation = alone(driver)
    driver.leave(member)
    left = Dismissal(Why.LEFT, driver.wall_ms, Requester("client", HOST))
    assert dismissal(driver, member, generation) == left
    driver.advance(1_000)
    assert dismissal(driver, member, generation) == left


def test_a_member_that_did_not_join_in_time_missed_the_rebalance() -> None:
    driver = Driver()
    member, generation = alone(driver, session_ms=300_000, rebalance_ms=2_000)
    driver.join(version=3, client_id="second", rebalance_ms=2_000)
    driver.advance(2_000)
    assert dismissal(driver, member, generation) == Dismissal(Why.MISSED_REBALANCE, driver.wall_ms)


def test_a_member_that_joined_and_did_not_sync_missed_the_rebalance_too() -> None:
    driver = Driver()
    answer = driver.join(version=3, session_ms=300_000, rebalance_ms=4_000)
    driver.advance(driver.config.group_initial_rebalance_delay_ms)
    joined = answer.value
    driver.advance(4_000)
    assert dismissal(driver, joined.member_id, joined.generation_id) == Dismissal(
        Why.MISSED_REBALANCE, driver.wall_ms
    )


def test_the_reason_of_a_replaced_instance_names_the_client_of_the_new_member() -> None:
    driver = Driver()
    member, generation = alone(driver, instance="i")
    driver.advance(10)
    driver.join(version=5, instance="i", client_id="second")
    replaced = Dismissal(Why.REPLACED, driver.wall_ms, Requester("second", HOST))
    assert dismissal(driver, member, generation, "i") == replaced
    # A restart forgets the time and the client, but not that the member was replaced.
    driver.crash()
    assert dismissal(driver, member, generation, "i") == Dismissal(Why.REPLACED)


def test_a_replacement_that_was_not_written_has_no_effect() -> None:
    driver = Driver()
    member, generation = alone(driver, instance="i")
    driver.append_error = 19
    driver.join(version=5, instance="i", client_id="second")
    driver.append_error = None
    assert dismissal(driver, member, generation, "i") is None


def test_a_member_that_a_full_group_does_not_let_rejoin_has_the_reason_group_full() -> None:
    driver = Driver(GroupConfig(group_max_size=2))
    generation, (first, second) = driver.stable_group("a", "b")
    driver.config = driver.shard.table.config = GroupConfig(group_max_size=1)
    driver.join(first, version=3, protocols={"range": subscription("other")})
    assert driver.join(second, version=3).value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    found = dismissal(driver, second, generation)
    assert found == Dismissal(Why.GROUP_FULL, driver.wall_ms)


def test_the_reason_for_a_member_id_that_never_joined_a_full_group_is_unknown() -> None:
    driver = Driver(GroupConfig(group_max_size=1))
    generation, _ = driver.stable_group("a")
    given = driver.join()
    assert given.value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.config = driver.shard.table.config = GroupConfig(group_max_size=2)
    member_id = driver.join().value.member_id
    driver.config = driver.shard.table.config = GroupConfig(group_max_size=1)
    refused = driver.join(member_id)
    assert refused.value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert dismissal(driver, member_id, generation) == Dismissal(Why.UNKNOWN)
    assert not driver.group().pending_join_members


def test_a_deleted_or_recreated_group_has_no_reasons() -> None:
    driver = Driver()
    assert dismissal(driver, "gone", 3) == Dismissal(Why.UNKNOWN)
    member, generation = alone(driver)
    assert dismissal(driver, member, generation + 1) == Dismissal(Why.UNKNOWN)
    assert dismissal(driver, "never seen", generation) == Dismissal(Why.UNKNOWN)
    driver.leave(member)
    driver.delete(GROUP)
    assert dismissal(driver, member, generation) == Dismissal(Why.UNKNOWN)


def test_only_the_last_reasons_are_remembered() -> None:
    history = History()
    for number in range(3 * DEPARTURES):
        history.departed(f"m{number}", Why.LEFT, number)
    known = [
        number
        for number in range(3 * DEPARTURES)
        if history.dismissal(f"m{number}", -1, UNKNOWN_MEMBER).why is Why.LEFT
    ]
    assert known == list(range(2 * DEPARTURES, 3 * DEPARTURES))
    for number in range(1, 3 * GENERATIONS):
        history.generation_began(number, number)
    oldest = history.dismissal("", 0, OLDER)
    assert oldest == Dismissal(Why.NEWER_GENERATION, 2 * GENERATIONS)


def test_long_names_do_not_fill_the_memory() -> None:
    driver = Driver()
    member, generation = alone(driver, "n" * 30_000)
    driver.leave(member)
    found = dismissal(driver, member, generation)
    assert found is not None
    assert found.why is Why.NEWER_GENERATION, "the empty group has a newer generation"
    short, generation = alone(driver)
    driver.join(short, version=3, client_id="n" * 30_000, protocols={"range": subscription("x")})
    found = dismissal(driver, short, generation)
    assert found is not None
    assert found.by == Requester("n" * KEPT_NAME, HOST)
