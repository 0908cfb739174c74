"""Heartbeats, sessions and leaving."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog_server.group.classic.states import GroupState
from tests.server.group.driver import Driver, groups_of


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group": ""}, 24),
        ({"group": "unknown"}, 25),
        ({"member_id": "unknown"}, 25),
        ({"instance": "i"}, 25),
        ({"generation_id": 0}, 22),
        ({"generation_id": 2}, 22),
        ({}, 0),
    ],
)
def test_error_codes_of_heartbeats(options: dict[str, Any], code: int) -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a")
    arguments: dict[str, Any] = {"member_id": member, "generation_id": generation_id}
    assert driver.heartbeat(**{**arguments, **options}) == code


def test_a_member_is_removed_one_session_timeout_after_its_last_heartbeat() -> None:
    driver = Driver()
    generation_id, (beating, _) = driver.stable_group("a", "b", session_ms=10_000)
    for _ in range(3):
        driver.advance(9_000)
        driver.heartbeat(beating, generation_id)
    assert list(driver.group().members) == [beating]
    assert driver.heartbeat(beating, generation_id) == 27
    driver.advance(10_000)
    assert driver.state() is GroupState.EMPTY


def test_a_commit_of_offsets_counts_as_a_heartbeat() -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a", session_ms=10_000)
    for offset in range(5):
        driver.advance(9_000)
        codes = driver.commit(("t", 0, offset), member_id=member, generation_id=generation_id)
        assert codes == [0]
    assert driver.state() is GroupState.STABLE


def test_the_sessions_of_a_loaded_group_begin_at_the_load() -> None:
    driver = Driver()
    generation_id, (beating, silent) = driver.stable_group("a", "b", session_ms=10_000)
    driver.now_ms += 1_000_000
    driver.crash()
    driver.advance(9_999)
    assert driver.heartbeat(beating, generation_id) == 0
    driver.advance(1)
    assert silent not in driver.group().members


def test_leave_group_before_version_3_names_one_member_and_returns_one_code() -> None:
    driver = Driver()
    _, (member, _) = driver.stable_group("a", "b")
    assert driver.leave(member, version=2).value.error_code == 0
    assert driver.leave(member, version=0).value.error_code == 25
    assert driver.leave("x", version=1, group="unknown").value.error_code == 25
    assert driver.leave("x", version=1, group="").value.error_code == 24
    assert driver.leave("x", version=3, group="").value.error_code == 24


def test_members_leave_in_one_request_and_each_gets_its_own_code() -> None:
    driver = Driver()
    _, (first, second, third) = driver.stable_group("a", "b", "c")
    left = driver.leave(first, "unknown", third).value.members
    assert [(row.member_id, row.error_code) for row in left] == [
        (first, 0),
        ("unknown", 25),
        (third, 0),
    ]
    assert list(driver.group().members) == [second]
    unknown = driver.leave("x", "y", group="unknown").value
    assert (unknown.error_code, [row.error_code for row in unknown.members]) == (0, [25, 25])


def test_after_the_last_member_left_the_group_is_empty_in_the_log_too() -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a")
    driver.leave(member)
    loaded = groups_of(driver.load())["g"]
    assert loaded.state is driver.state() is GroupState.EMPTY
    assert loaded.generation_id == generation_id + 1
    assert len(driver.shard.table.timers) == 1  # the check for expired offsets
    assert (loaded.protocol_type, loaded.protocol_name, loaded.leader_id) == (
        "consumer",
        None,
        None,
    )


def test_a_group_is_not_empty_in_the_log_while_a_member_may_still_join_with_its_new_id() -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a")
    given = driver.join().value.member_id
    driver.leave(member)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    loaded = groups_of(driver.load())["g"]
    assert (loaded.state, loaded.generation_id) == (GroupState.STABLE, generation_id)
    joined = driver.join(given)
    assert joined.value.generation_id == generation_id + 1


def test_a_session_that_ends_while_a_new_member_id_is_unused_empties_the_group_once() -> None:
    driver = Driver()
    generation_id, _ = driver.stable_group("a", session_ms=10_000)
    driver.advance(5_000)
    driver.join(session_ms=30_000)
    written = len(driver.log)
    driver.advance(5_000)
    assert driver.state() is GroupState.EMPTY
    assert len(driver.log) == written + 1
    assert groups_of(driver.load())["g"].generation_id == generation_id + 1


def test_a_new_member_id_that_expires_unused_starts_no_rebalance() -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a", session_ms=30_000)
    driver.join(session_ms=10_000)
    driver.advance(10_000)
    assert not driver.group().pending_join_members
    assert driver.heartbeat(member, generation_id) == 0


def test_a_member_that_is_named_twice_leaves_once() -> None:
    driver = Driver()
    _, (first, _) = driver.stable_group("a", "b")
    given = driver.join().value.member_id
    left = driver.leave(first, first, given, given).value.members
    assert [row.error_code for row in left] == [0, 25, 0, 25]


def test_a_static_member_that_is_named_twice_leaves_once() -> None:
    driver = Driver()
    static = driver.join(instance="i")
    driver.advance(3_000)
    left = driver.leave(static.value.member_id, instances=["i", "i"]).value.members
    assert [row.error_code for row in left] == [0, 25, 25]
    assert driver.state() is GroupState.EMPTY


def test_an_instance_that_left_earlier_in_a_request_fences_no_later_member_of_it() -> None:
    driver = Driver()
    driver.join(instance="i")
    driver.advance(3_000)
    identities = [
        MemberIdentity(member_id="other", group_instance_id="i"),
        MemberIdentity(group_instance_id="i"),
        MemberIdentity(member_id="other", group_instance_id="i"),
    ]
    request = LeaveGroupRequest(group_id="g", members=identities)
    decision = driver.decide(driver.shard.leave_group, request, driver.caller(5))
    left = driver.run(decision, 5).value.members
    assert [row.error_code for row in left] == [82, 0, 25]


def test_an_initial_rebalance_that_all_members_left_ends_after_its_delay() -> None:
    driver = Driver()
    driver.join_twice()
    (member,) = driver.group().members
    driver.leave(member)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.advance(3_000)
    assert driver.state() is GroupState.EMPTY
    assert groups_of(driver.load())["g"].generation_id == 1


def test_a_group_is_empty_in_the_log_after_a_rebalance_that_no_member_joins() -> None:
    driver = Driver()
    generation_id, (first, _) = driver.stable_group("a", "b", session_ms=600_000)
    driver.leave(first)
    driver.advance(60_000)
    assert driver.state() is GroupState.EMPTY
    assert groups_of(driver.load())["g"].generation_id == generation_id + 1


def test_a_new_member_id_can_leave_before_it_joins() -> None:
    driver = Driver()
    given = driver.join().value.member_id
    (left,) = driver.leave(given).value.members
    assert left.error_code == 0
    assert driver.join(given).value.error_code == 25


def test_a_member_that_leaves_while_it_waits_gets_unknown_member_id() -> None:
    driver = Driver()
    first = driver.join_twice(client_id="a")
    second = driver.join_twice(client_id="b")
    joining = list(driver.group().members)
    driver.leave(joining[1])
    assert second.value.error_code == 25
    driver.advance(6_000)
    third = driver.join_twice(client_id="c")
    driver.join(first.value.member_id)
    waiting = driver.sync(third.value.member_id, 2)
    driver.leave(third.value.member_id)
    assert waiting.value.error_code == 25


def test_the_join_phase_ends_when_the_last_missing_member_leaves() -> None:
    driver = Driver()
    _, (first, second) = driver.stable_group("a", "b")
    answer = driver.join(first)
    assert not answer.done
    driver.leave(second)
    assert answer.value.error_code == 0


def test_a_shard_that_moves_away_completes_requests_that_wait_for_committed_records() -> None:
    driver = Driver()
    _, (first, second) = driver.stable_group("a", "b", group="syncing")
    driver.join(first, group="syncing")
    driver.join(second, group="syncing")
    static = driver.join(instance="i", group="static")
    driver.advance(3_000)
    driver.sync(static.value.member_id, 1, {}, group="static", instance="i")
    driver.holds_commits = True
    joins = [
        driver.join(version=3, group="new"),
        driver.join(version=4, group="newer"),
        driver.join(instance="i", group="static"),
    ]
    syncs = [
        driver.sync(second, 2, group="syncing"),
        driver.sync(first, 2, {first: b""}, group="syncing"),
    ]
    driver.lose_leadership()
    assert [join.value.error_code for join in joins] == [16] * 3
    assert [sync.value.error_code for sync in syncs] == [16] * 2
    assert driver.shard.next_timer() is None
    assert driver.groups == {}


def test_a_shard_that_moves_away_completes_every_parked_request() -> None:
    driver = Driver()
    _, (leader, follower) = driver.stable_group("b", "c", group="h")
    joining = driver.join_twice(client_id="a")
    driver.join(leader, group="h")
    driver.join(follower, group="h")
    syncing = driver.sync(follower, 2, group="h")
    driver.shard.on_unloaded()
    assert joining.value.error_code == 16
    assert syncing.value.error_code == 16
    assert driver.shard.next_timer() is None
    assert driver.groups == {}
