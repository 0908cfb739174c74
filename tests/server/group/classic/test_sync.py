"""SyncGroup: each member gets the leader's assignment once it is committed, or an error code."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.messages.sync_group import SyncGroupResponse
from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.states import GroupState
from tests.server.group.driver import Driver, groups_of


def joined(driver: Driver, *names: str, **options: int) -> list[str]:
    """Let members join, and return their ids, the leader's first. No member has sent SyncGroup for
    generation 1 yet."""
    answers = [driver.join_twice(client_id=name, **options) for name in names]
    while not answers[0].done:
        driver.advance(1_000)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    return [answer.value.member_id for answer in answers]


def code(answer: Deferred[SyncGroupResponse]) -> int | None:
    return answer.value.error_code if answer.done else None


def test_followers_wait_for_the_leader_and_the_leader_for_the_commit() -> None:
    driver = Driver()
    leader, follower, late = joined(driver, "a", "b", "c")
    waiting = driver.sync(follower, 1)
    driver.holds_commits = True
    leading = driver.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert not waiting.done
    assert not leading.done
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    driver.release_commits()
    assert (waiting.value.assignment, leading.value.assignment) == (b"F", b"L")
    assert (waiting.value.protocol_type, waiting.value.protocol_name) == ("consumer", "range")
    assert driver.state() is GroupState.STABLE
    # A member without an assignment from the leader has no partitions.
    assert driver.sync(late, 1).value.assignment == b""


@pytest.mark.parametrize("version", range(6))
def test_the_response_is_encoded_in_every_version(version: int) -> None:
    driver = Driver()
    leader, follower = joined(driver, "a", "b")
    assert code(driver.sync("unknown", 1, version=version)) == 25
    waiting = driver.sync(follower, 1, version=version)
    driver.sync(leader, 1, {follower: b"F"}, version=version)
    assert waiting.value.assignment == b"F"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"group": ""}, 24),
        ({"group": "unknown"}, 25),
        ({"member_id": "unknown"}, 25),
        ({"instance": "i"}, 25),
        ({"generation_id": 0}, 22),
        ({"generation_id": 2}, 22),
        ({"protocol_type": "connect"}, 23),
        ({"protocol_name": "sticky"}, 23),
        ({"protocol_type": None, "protocol_name": None}, None),
    ],
)
def test_a_sync_with_a_wrong_field_gets_its_error_code(
    options: dict[str, Any], expected: int | None
) -> None:
    driver = Driver()
    _, follower = joined(driver, "a", "b")
    arguments: dict[str, Any] = {"member_id": follower, "generation_id": 1, **options}
    assert code(driver.sync(**arguments)) == expected


@pytest.mark.parametrize(("failure", "expected"), [(19, 15), (7, 15), (6, 16), (56, 16), (18, -1)])
def test_if_the_assignment_cannot_be_written_syncs_fail_and_a_rebalance_begins(
    failure: int, expected: int
) -> None:
    driver = Driver()
    leader, follower = joined(driver, "a", "b")
    waiting = driver.sync(follower, 1)
    driver.append_error = failure
    leading = driver.sync(leader, 1, {leader: b"L"})
    assert (code(leading), code(waiting)) == (expected, expected)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.append_error = None
    driver.join(leader)
    answer = driver.join(follower).value
    assert answer.generation_id == 2
    driver.sync(leader, 2, {follower: b"F2"})
    assert driver.sync(follower, 2).value.assignment == b"F2"


def test_a_rebalance_before_the_commit_makes_the_assignment_void() -> None:
    driver = Driver()
    leader, follower = joined(driver, "a", "b")
    driver.holds_commits = True
    waiting = driver.sync(follower, 1)
    leading = driver.sync(leader, 1, {leader: b"L"})
    new_member = driver.join_twice
    driver.leave(follower)
    assert (code(leading), code(waiting)) == (None, 25)
    driver.release_commits()
    assert code(leading) == 27
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert not new_member(client_id="c").done


def test_the_assignment_of_one_generation_is_not_given_to_the_next() -> None:
    driver = Driver()
    joins = [driver.join_twice(client_id=name) for name in "ab"]
    driver.advance(6_000)
    leader, follower = (join.value.member_id for join in joins)
    driver.holds_commits = True
    driver.sync(leader, 1, {leader: b"1", follower: b"1"})
    # The next generation begins and has no assignment yet.
    driver.leave(follower)
    assert driver.join(leader).value.generation_id == 2
    waiting = driver.sync(leader, 2, {leader: b"2"})
    first, *others = driver._held
    driver._held = [first]
    driver.release_commits()
    assert not waiting.done
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    driver._held = others
    driver.release_commits()
    assert waiting.value.assignment == b"2"


def test_a_member_is_described_without_the_assignment_of_an_older_generation() -> None:
    driver = Driver()
    _, (leader, follower) = driver.stable_group("a", "b")
    driver.join(leader)
    driver.join(follower)
    driver.leave(follower)
    group = driver.run(driver.shard.describe_group("g")).value
    assert group is not None
    assert [member.assignment for member in group.members] == [b""]


def test_a_leader_that_syncs_twice_writes_once() -> None:
    driver = Driver()
    (leader,) = joined(driver, "a")
    driver.holds_commits = True
    first = driver.sync(leader, 1, {leader: b"1"})
    written = len(driver.log)
    second = driver.sync(leader, 1, {leader: b"2"})
    assert len(driver.log) == written
    driver.release_commits()
    assert code(first) == 27
    assert second.value.assignment == b"1"
    assert groups_of(driver.load())["g"].members[leader].assignment == b"1"


def test_members_that_never_sync_are_left_out_after_the_rebalance_timeout() -> None:
    driver = Driver()
    leader, follower, silent = joined(driver, "a", "b", "c", session_ms=60_000, rebalance_ms=20_000)
    started_ms = driver.shard.table.timers.deadline_ms(("sync", "g"))
    assert started_ms is not None
    waiting = driver.sync(follower, 1)
    driver.sync(leader, 1, {})
    assert waiting.done
    driver.advance(started_ms - driver.now_ms - 1)
    assert silent in driver.group().members
    driver.advance(1)
    assert silent not in driver.group().members
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_a_group_without_a_sync_becomes_empty() -> None:
    driver = Driver()
    joined(driver, "a", "b", session_ms=1_000_000, rebalance_ms=20_000)
    driver.advance(20_000)
    assert driver.state() is GroupState.EMPTY
    assert groups_of(driver.load())["g"].state is GroupState.EMPTY


def test_a_leader_that_dies_after_the_join_phase_does_not_stop_the_group() -> None:
    driver = Driver()
    leader, follower = joined(driver, "a", "b", session_ms=10_000)
    waiting = driver.sync(follower, 1)
    driver.advance(10_000)
    assert leader not in driver.group().members
    assert code(waiting) == 27
    answer = driver.join(follower).value
    assert (answer.leader, answer.generation_id) == (follower, 2)
