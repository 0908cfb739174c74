"""Static members (KIP-345): a group instance id keeps its place in the group. A new process with
the same id takes over the place and fences the old process. Its JoinGroup request is called a
return here."""

from __future__ import annotations

import pytest

from oncelog_server.group.classic.states import GroupState
from tests.server.group.driver import Driver
from tests.server.group.entries import subscription


def static_group(driver: Driver, *, session_ms: int = 30_000) -> tuple[int, str, str]:
    """Return the generation, the static leader "i" and the dynamic follower of a stable group."""
    leader = driver.join(instance="i", session_ms=session_ms)
    follower = driver.join_twice(client_id="f", session_ms=session_ms)
    driver.advance(6_000)
    ids = leader.value.member_id, follower.value.member_id
    driver.sync(ids[1], 1)
    driver.sync(ids[0], 1, {ids[0]: b"for i", ids[1]: b"for f"}, instance="i")
    assert driver.state() is GroupState.STABLE
    return 1, *ids


def test_a_static_member_joins_without_member_id_required() -> None:
    driver = Driver()
    answer = driver.join(instance="i")
    driver.advance(3_000)
    assert answer.value.error_code == 0
    assert answer.value.member_id == "i-1"


def test_G5_a_restarted_static_member_keeps_the_generation_and_fences_its_old_member_id() -> None:
    driver = Driver()
    generation_id, old, _ = static_group(driver)
    answer = driver.join(instance="i").value
    assert answer.error_code == 0
    assert answer.member_id != old
    assert answer.generation_id == generation_id
    assert driver.state() is GroupState.STABLE
    assert driver.heartbeat(old, generation_id, instance="i") == 82
    assert driver.sync(old, generation_id, instance="i").value.error_code == 82
    assert driver.join(old, instance="i").value.error_code == 82
    assert driver.commit(("t", 0, 1), member_id=old, generation_id=generation_id, instance="i") == [
        82
    ]
    assert driver.txn_commit(
        7, ("t", 0, 1), member_id=old, generation_id=generation_id, instance="i"
    ) == [82]
    # Without the instance id the old member id is unknown.
    assert driver.heartbeat(old, generation_id) == 25
    assert driver.heartbeat(answer.member_id, generation_id, instance="i") == 0
    again = driver.sync(answer.member_id, generation_id, instance="i").value
    assert again.assignment == b"for i"


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_returning_leader_does_not_assign_partitions_again(version: int) -> None:
    driver = Driver()
    _, old, follower = static_group(driver)
    answer = driver.join(instance="i", version=version).value
    if version < 9:
        # The response names the old member id as the leader, so the member does not
        # assign partitions.
        assert (answer.leader, answer.members) == (old, [])
        assert not answer.skip_assignment
    else:
        assert answer.skip_assignment
        assert answer.leader == answer.member_id
        assert {member.member_id for member in answer.members} == {answer.member_id, follower}


def test_a_returning_member_survives_a_restart_of_the_coordinator() -> None:
    driver = Driver()
    generation_id, old, _ = static_group(driver)
    new = driver.join(instance="i").value.member_id
    driver.crash()
    assert driver.heartbeat(new, generation_id, instance="i") == 0
    assert driver.heartbeat(old, generation_id, instance="i") == 82


def test_the_settings_of_a_returning_member_survive_a_restart_of_the_coordinator() -> None:
    driver = Driver()
    static_group(driver)
    driver.join(
        instance="i",
        protocols={"range": subscription("new")},
        session_ms=20_000,
        rebalance_ms=40_000,
    )
    live = driver.group()
    driver.crash()
    loaded = driver.group()
    assert loaded.leader_id == live.leader_id
    assert list(loaded.members.items()) == list(live.members.items())


def test_a_return_that_cannot_be_written_leaves_the_old_member_in_its_place() -> None:
    driver = Driver()
    generation_id, old, _ = static_group(driver)
    before = driver.group().members[old].protocols
    driver.append_error = 19
    answer = driver.join(
        instance="i", protocols={"range": subscription("other")}, session_ms=60_000
    ).value
    assert (answer.error_code, answer.member_id) == (15, "")
    member = driver.group().members[old]
    assert (member.protocols, member.session_timeout_ms) == (before, 30_000)
    assert driver.heartbeat(old, generation_id, instance="i") == 0
    assert driver.group().leader_id == old
    assert driver.group().awaiting_join_count == 0


def test_a_member_has_a_session_again_after_its_return_failed() -> None:
    driver = Driver()
    generation_id, old, follower = static_group(driver, session_ms=10_000)
    driver.holds_commits = True
    driver.join(instance="i", session_ms=60_000)
    for _ in range(3):
        driver.advance(5_000)
        driver.heartbeat(follower, generation_id)
    driver.fail_commits(19)
    assert old in driver.group().members
    driver.advance(9_999)
    assert old in driver.group().members
    driver.advance(1)
    assert old not in driver.group().members


def test_no_rebalance_begins_if_a_follower_returns_before_its_sync() -> None:
    driver = Driver()
    joins = [driver.join(instance=name, rebalance_ms=20_000) for name in ("i", "j")]
    driver.advance(6_000)
    leader, follower = (join.value.member_id for join in joins)
    assignments = {leader: b"for i", follower: b"for j"}
    driver.sync(leader, 1, assignments, instance="i")
    again = driver.join(instance="j", rebalance_ms=20_000).value
    assert again.generation_id == 1
    for _ in range(5):
        driver.advance(5_000)
        assert driver.heartbeat(leader, 1, instance="i") == 0
        assert driver.heartbeat(again.member_id, 1, instance="j") == 0
    assert driver.sync(again.member_id, 1, instance="j").value.assignment == b"for j"


def test_a_return_gets_its_response_once_it_is_committed() -> None:
    driver = Driver()
    static_group(driver)
    driver.holds_commits = True
    answer = driver.join(instance="i")
    assert not answer.done
    driver.release_commits()
    assert answer.value.error_code == 0


def test_a_session_that_ends_while_the_return_is_written_begins_again() -> None:
    driver = Driver()
    generation_id, _, follower = static_group(driver, session_ms=10_000)
    driver.holds_commits = True
    answer = driver.join(instance="i", session_ms=10_000)
    for _ in range(3):
        driver.advance(5_000)
        driver.heartbeat(follower, generation_id)
    driver.release_commits()
    assert answer.value.error_code == 0
    driver.advance(9_999)
    assert answer.value.member_id in driver.group().members
    driver.advance(1)
    assert answer.value.member_id not in driver.group().members


def test_a_return_overtaken_by_a_rebalance_gets_its_response_after_the_rebalance() -> None:
    driver = Driver()
    _, _, follower = static_group(driver)
    driver.holds_commits = True
    answer = driver.join(instance="i")
    driver.join(follower, protocols={"range": subscription("new")})
    driver.release_commits()
    assert answer.value.generation_id == 2


def test_a_return_that_changes_the_protocol_starts_a_rebalance() -> None:
    driver = Driver()
    protocols = {"range": subscription(), "sticky": subscription()}
    leader = driver.join(instance="i", protocols=protocols)
    driver.advance(3_000)
    driver.sync(leader.value.member_id, 1, {}, instance="i")
    answer = driver.join(instance="i", protocols={"sticky": subscription()})
    assert answer.value.generation_id == 2
    assert answer.value.protocol_name == "sticky"
    assert driver.state() is GroupState.COMPLETING_REBALANCE


def test_a_rebalance_begins_if_a_member_returns_before_the_assignment() -> None:
    driver = Driver()
    leader = driver.join(instance="i")
    follower = driver.join(instance="j")
    driver.advance(6_000)
    waiting = driver.sync(follower.value.member_id, 1, instance="j")
    answer = driver.join(instance="j")
    assert waiting.value.error_code == 82
    assert not answer.done
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.join(leader.value.member_id, instance="i")
    assert answer.value.generation_id == 2


def test_a_return_during_the_join_phase_fences_the_waiting_join() -> None:
    driver = Driver()
    first = driver.join(instance="i")
    second = driver.join(instance="i")
    assert first.value.error_code == 82
    assert first.value.member_id == "i-1"
    driver.advance(3_000)
    assert second.value.error_code == 0
    assert second.value.leader == second.value.member_id


def test_a_static_member_keeps_its_place_through_a_rebalance_it_misses() -> None:
    driver = Driver()
    _, static, follower = static_group(driver, session_ms=60_000)
    answer = driver.join(follower, rebalance_ms=9_000, protocols={"range": b"new"})
    driver.advance(60_000)
    assert answer.value.error_code == 0
    assert answer.value.leader == follower
    assert {member.member_id for member in answer.value.members} == {static, follower}
    assert {member.group_instance_id for member in answer.value.members} == {"i", None}


def test_a_group_of_absent_static_members_waits_until_their_sessions_end() -> None:
    driver = Driver()
    leader = driver.join(instance="i", session_ms=30_000, rebalance_ms=1)
    other = driver.join(instance="o", session_ms=30_000, rebalance_ms=1)
    driver.now_ms += 3_000
    driver.expire()
    driver.sync(leader.value.member_id, 1, {}, instance="i")
    driver.sync(other.value.member_id, 1, instance="o")
    assert driver.state() is GroupState.STABLE
    driver.leave(other.value.member_id)
    rounds = 0
    while driver.shard.next_timer() is not None and driver.now_ms < 32_900:
        driver.advance(1 + (driver.shard.next_timer() or 0) - driver.now_ms)
        rounds += 1
    # The members' rebalance timeout is 1 ms. A rebalance at each timeout would make
    # thousands of rounds.
    assert rounds < 40
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.advance(2_000)
    assert driver.state() is GroupState.EMPTY


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    driver = Driver()
    _, static, _ = static_group(driver)
    found, unknown = driver.leave(instances=["i", "unknown"]).value.members
    assert (found.error_code, unknown.error_code) == (0, 25)
    assert static not in driver.group().members
    assert driver.group().static_members == {}
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_the_old_member_id_of_a_restarted_static_member_cannot_leave() -> None:
    driver = Driver()
    _, old, _ = static_group(driver)
    driver.join(instance="i")
    (left,) = driver.leave(old).value.members
    assert left.error_code == 25
