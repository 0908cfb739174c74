"""JoinGroup: the accepted members, their ids, and the end of the join phase."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.codecs import encode
from oncelog_protocol.messages.describe_groups import DescribeGroupsResponse
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.config import GroupConfig
from oncelog_server.handlers.describe_groups import described_group
from tests.server.group.driver import GROUP, Driver
from tests.server.group.entries import subscription


def with_config(**settings: int) -> Driver:
    return Driver(GroupConfig(**settings))


@pytest.mark.parametrize(
    ("options", "code", "member_id"),
    [
        ({"group": ""}, 24, ""),
        ({"group": "g" * 32_001}, 24, ""),
        ({"session_ms": 5_999}, 26, ""),
        ({"session_ms": 1_800_001}, 26, ""),
        ({"member_id": "unknown"}, 25, "unknown"),
        ({"protocols": {}}, 23, ""),
        ({"protocol_type": ""}, 23, ""),
        ({"protocols": {"range": b"x" * (1 << 20)}}, 42, ""),
        ({"protocols": {"r" * 32_001: b""}}, 42, ""),
        ({"instance": "i" * 32_001}, 42, ""),
    ],
)
def test_a_refused_join_creates_no_group(
    options: dict[str, Any], code: int, member_id: str
) -> None:
    driver = Driver()
    answer = driver.join(**options).value
    assert (answer.error_code, answer.member_id) == (code, member_id)
    assert driver.shard.table.groups == {}
    assert driver.log == []


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("name", ["c" * 32_767, "é" * 16_383])
def test_a_member_id_made_of_the_longest_client_id_fits_every_response(
    name: str, version: int
) -> None:
    """The driver fails if it cannot encode a response in its version (A4)."""
    driver = Driver()
    join = driver.join if version < 4 else driver.join_twice
    answer = join(version=version, client_id=name)
    driver.advance(3_000)
    member_id = answer.value.member_id
    assert len(member_id.encode()) <= 32_767
    assert member_id.startswith(name[:10_000])
    details = driver.run(driver.shard.describe_group(GROUP)).value
    assert details is not None
    for described in range(7):
        encode(DescribeGroupsResponse(groups=[described_group(details)]), described)


@pytest.mark.parametrize("version", range(10))
def test_a_first_member_becomes_leader_of_generation_one_in_every_version(version: int) -> None:
    driver = Driver()
    answer = driver.join(version=version) if version < 4 else driver.join_twice(version=version)
    assert not answer.done
    driver.advance(3_000)
    response = answer.value
    assert response.error_code == 0
    assert response.generation_id == 1
    assert response.leader == response.member_id
    assert response.protocol_name == "range"
    assert [member.member_id for member in response.members] == [response.member_id]
    assert not response.skip_assignment


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_has_a_response_in_every_version(version: int) -> None:
    response = Driver().join("unknown", version=version).value
    assert response.error_code == 25
    assert response.protocol_name == (None if version >= 7 else "")


def test_version_0_waits_its_session_timeout_for_the_others() -> None:
    driver = Driver()
    _, (member,) = driver.stable_group("a", version=9, session_ms=7_000)
    driver.join(version=0, session_ms=8_000, rebalance_ms=-1)
    (new_member,) = (other for name, other in driver.group().members.items() if name != member)
    assert new_member.rebalance_timeout_ms == 8_000


def test_a_member_id_is_given_first_and_forgotten_if_it_is_not_used() -> None:
    driver = Driver()
    given = driver.join(session_ms=10_000).value
    assert given.error_code == 79
    driver.advance(9_999)
    assert given.member_id in driver.group().pending_join_members
    driver.advance(1)
    assert driver.join(given.member_id).value.error_code == 25


def test_a_static_member_cannot_join_with_an_assigned_member_id() -> None:
    driver = Driver()
    given = driver.join().value
    assert driver.join(given.member_id, instance="i").value.error_code == 25


def test_a_rebalance_waits_for_assigned_member_ids_that_have_not_joined() -> None:
    driver = Driver()
    _, (member,) = driver.stable_group("a")
    pending = driver.join(client_id="b").value
    joining = driver.join_twice(client_id="c")
    driver.join(member)
    assert not joining.done
    driver.join(pending.member_id)
    assert joining.value.error_code == 0


def test_new_members_prolong_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    driver = Driver()
    first = driver.join_twice(client_id="a", rebalance_ms=7_000)
    driver.advance(2_999)
    driver.join_twice(client_id="b", rebalance_ms=7_000)
    driver.advance(1)
    assert not first.done
    driver.advance(2_999)
    driver.join_twice(client_id="c", rebalance_ms=7_000)
    driver.advance(1)
    assert not first.done
    driver.join_twice(client_id="d", rebalance_ms=7_000)
    driver.advance(999)
    assert not first.done
    driver.advance(1)
    assert len(first.value.members) == 4


def test_members_of_an_earlier_initial_rebalance_do_not_prolong_a_later_one() -> None:
    driver = Driver()
    joins = [driver.join_twice(client_id=name, rebalance_ms=1_000) for name in "ab"]
    driver.advance(3_000)
    driver.leave(*(join.value.member_id for join in joins))
    later = driver.join_twice(client_id="c")
    driver.advance(3_000)
    assert later.done


def test_without_an_initial_delay_the_first_member_gets_its_response_at_once() -> None:
    driver = with_config(group_initial_rebalance_delay_ms=0)
    answer = driver.join_twice()
    driver.advance(0)
    assert answer.value.generation_id == 1


def test_of_the_common_protocols_the_most_preferred_one_is_chosen() -> None:
    driver = Driver()
    knows = [("x", "b", "a"), ("a", "b"), ("b", "a", "y")]
    answers = [
        driver.join_twice(client_id=f"{number}", protocols=dict.fromkeys(names, b""))
        for number, names in enumerate(knows)
    ]
    driver.advance(60_000)
    assert {answer.value.protocol_name for answer in answers} == {"b"}


def test_a_member_without_a_common_protocol_is_refused_and_changes_nothing() -> None:
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a", protocols={"range": b"", "sticky": b""})
    answer = driver.join_twice
    assert driver.join(protocols={"other": b""}).value.error_code == 23
    assert driver.join(protocol_type="connect").value.error_code == 23
    assert driver.join(member, protocols={"other": b""}).value.error_code == 23
    assert driver.heartbeat(member, generation_id) == 0
    assert not answer(client_id="b", protocols={"sticky": b""}).done
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_a_group_that_became_empty_takes_another_protocol_type() -> None:
    driver = Driver()
    _, (member,) = driver.stable_group("a")
    driver.leave(member)
    driver.stable_group("b", protocol_type="connect", protocols={"eager": b""})
    assert driver.group().protocol_type == "connect"


def test_a_follower_that_joins_again_unchanged_gets_the_current_generation() -> None:
    driver = Driver()
    generation_id, (leader, follower) = driver.stable_group("a", "b")
    answer = driver.join(follower).value
    assert (answer.error_code, answer.generation_id) == (0, generation_id)
    assert (answer.leader, answer.members) == (leader, [])
    assert driver.state() is GroupState.STABLE


def test_a_leader_that_lost_its_response_gets_it_again_before_it_syncs() -> None:
    driver = Driver()
    answer = driver.join_twice()
    driver.advance(3_000)
    again = driver.join(answer.value.member_id).value
    assert again == answer.value


@pytest.mark.parametrize("synced", [True, False])
def test_a_member_with_new_metadata_starts_a_rebalance(synced: bool) -> None:
    driver = Driver()
    _, (leader, follower) = driver.stable_group("a", "b")
    if not synced:
        driver.join(leader)
        driver.join(follower)
        assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert not driver.join(follower, protocols={"range": subscription("new")}).done
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_a_rebalance_leaves_out_dynamic_members_that_do_not_join_in_time() -> None:
    driver = Driver()
    generation_id, (leader, follower) = driver.stable_group(
        "a", "b", rebalance_ms=9_000, session_ms=30_000
    )
    answer = driver.join(follower, rebalance_ms=9_000, protocols={"range": b"new"})
    driver.advance(8_999)
    assert not answer.done
    driver.advance(1)
    assert answer.value.leader == follower
    assert answer.value.generation_id == generation_id + 1
    assert driver.heartbeat(leader, generation_id) == 25


def test_a_new_member_waits_for_the_others_longer_than_its_session() -> None:
    """The new member does not know its member id yet, so it cannot send heartbeats."""
    driver = Driver()
    generation_id, (member,) = driver.stable_group("a", session_ms=30_000, rebalance_ms=60_000)
    new = driver.join_twice(client_id="b", session_ms=6_000)
    for _ in range(4):
        driver.advance(5_000)
        driver.heartbeat(member, generation_id)
    assert not new.done
    driver.join(member)
    assert new.value.error_code == 0


def test_a_member_waiting_to_join_needs_no_heartbeats_after_its_first_generation() -> None:
    driver = Driver()
    _, (leader, follower) = driver.stable_group("a", "b", session_ms=10_000, rebalance_ms=60_000)
    answer = driver.join(leader)
    for _ in range(10):
        driver.advance(5_000)
        driver.heartbeat(follower, 1)
    assert not answer.done
    assert leader in driver.group().members
    assert driver.join(follower).value.error_code == 0
    assert answer.value.error_code == 0


def test_a_new_member_that_waits_too_long_has_to_start_over() -> None:
    driver = with_config(new_member_join_timeout_ms=20_000)
    _, (member,) = driver.stable_group("a", session_ms=60_000, rebalance_ms=60_000)
    answer = driver.join_twice(client_id="b", rebalance_ms=60_000)
    driver.advance(19_999)
    assert not answer.done
    driver.advance(1)
    assert answer.value.error_code == 25
    assert list(driver.group().members) == [member]


def test_a_repeated_join_ends_the_earlier_join_with_an_error() -> None:
    driver = Driver()
    given = driver.join().value
    first = driver.join(given.member_id)
    second = driver.join(given.member_id)
    assert first.value.error_code == 27
    driver.advance(3_000)
    assert second.value.error_code == 0
    assert driver.group().awaiting_join_count == 0


def test_group_max_size_counts_members_but_not_a_member_that_rejoins() -> None:
    driver = with_config(group_max_size=2)
    generation_id, (first, second) = driver.stable_group("a", "b")
    assert driver.join().value.error_code == 81
    assert driver.join(version=3).value.error_code == 81
    assert driver.heartbeat(first, generation_id) == 0
    # A member of the group may always rejoin.
    assert driver.join(second).value.error_code == 0


def test_a_lowered_group_max_size_keeps_the_members_that_join_again_first() -> None:
    driver = Driver()
    _, members = driver.stable_group("a", "b", "c")
    driver.config = GroupConfig(group_max_size=2)
    driver.crash()
    assert driver.state() is GroupState.PREPARING_REBALANCE
    answers = [driver.join(member) for member in members]
    assert [answer.value.error_code for answer in answers] == [0, 0, 81]
    assert list(driver.group().members) == members[:2]


def test_h63_the_memory_of_a_group_is_limited() -> None:
    driver = with_config(group_metadata_max_bytes=5_000, pending_members_max=3)
    large = {"range": b"x" * 2_000}
    _, (member,) = driver.stable_group("a", protocols=large)
    assert driver.join(version=3, protocols={"range": b"x" * 4_000}).value.error_code == 81
    # A member may rejoin with the same amount of data.
    assert driver.join(member, protocols=large).value.error_code == 0
    codes = [driver.join(client_id=f"{number}").value.error_code for number in range(4)]
    assert codes == [79, 79, 79, 81]


def test_h63_empty_protocols_count_in_the_memory_of_a_member() -> None:
    """Each takes more memory than its name and metadata."""
    driver = with_config(member_metadata_max_bytes=100_000)
    names = {f"{number}": b"" for number in range(999)}
    assert driver.join(version=3, protocols=names).value.error_code == 42
    few = dict(list(names.items())[:99])
    assert not driver.join(version=3, protocols=few).done  # the group waits for further members


def test_a_new_group_is_in_the_log_before_any_response() -> None:
    driver = Driver(holds_commits=True)
    answer = driver.join()
    assert len(driver.log) == 1
    assert not answer.done
    driver.release_commits()
    assert answer.value.error_code == 79


@pytest.mark.parametrize(("code", "expected"), [(6, 16), (19, 15), (10, -1), (56, 16)])
def test_a_new_group_that_cannot_be_written_does_not_exist(code: int, expected: int) -> None:
    driver = Driver(append_error=code)
    assert driver.join().value.error_code == expected
    assert driver.join(version=3).value.error_code == expected
    assert driver.join(instance="i").value.error_code == expected
    assert GROUP not in driver.shard.table.groups
    assert len(driver.shard.table.timers) == 1  # the sweep of expired offsets
