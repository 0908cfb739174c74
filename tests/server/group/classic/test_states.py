"""The states of a classic group: the transition of each state at each event, and the response of
each API in each state."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog_server.group.classic.states import (
    DELETE_CODES,
    HEARTBEAT_CODES,
    GroupEvent,
    GroupState,
    IllegalTransition,
    next_state,
)
from tests.server.group.driver import GROUP, Driver
from tests.server.group.entries import subscription

EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

# Kafka's ClassicGroupState: the states from which each state may be entered.
VALID_PREVIOUS_STATES = {
    EMPTY: {PREPARING},
    PREPARING: {STABLE, COMPLETING, EMPTY},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
    DEAD: {STABLE, PREPARING, COMPLETING, EMPTY},
}
TARGETS = {
    GroupEvent.REBALANCE: PREPARING,
    GroupEvent.JOINED: COMPLETING,
    GroupEvent.EMPTIED: EMPTY,
    GroupEvent.ASSIGNED: STABLE,
    GroupEvent.REMOVED: DEAD,
}

PARKED = "parked"


@pytest.mark.parametrize(("state", "event"), list(product(GroupState, GroupEvent)))
def test_a_group_has_exactly_kafkas_transitions(state: GroupState, event: GroupEvent) -> None:
    target = TARGETS[event]
    if state in VALID_PREVIOUS_STATES[target]:
        assert next_state(state, event) is target
    else:
        with pytest.raises(IllegalTransition):
            next_state(state, event)


def test_every_state_has_a_row_in_every_table() -> None:
    assert set(HEARTBEAT_CODES) == set(DELETE_CODES) == set(GroupState)


def driver_in(state: GroupState) -> tuple[Driver, str, str, int]:
    """Return a group in this state: driver, leader, follower, generation. In some states the leader
    and the follower are no longer members."""
    driver = Driver()
    if state is DEAD:
        return driver, "l-1", "m-2", 1
    generation_id, (leader, member) = driver.stable_group("l", "m", protocols=PROTOCOLS)
    if state is EMPTY:
        driver.leave(leader, member)
    elif state is PREPARING:
        driver.join_twice(client_id="n", protocols=PROTOCOLS)
    elif state is COMPLETING:
        first = driver.join(leader, protocols=PROTOCOLS)
        driver.join(member, protocols=PROTOCOLS)
        generation_id = first.value.generation_id
    assert driver.state() is state
    return driver, leader, member, generation_id


PROTOCOLS = {"range": subscription("subscribed")}


def join_code(driver: Driver, member_id: str, **options: Any) -> object:
    answer = driver.join(member_id, protocols=PROTOCOLS, **options)
    return answer.value.error_code if answer.done else PARKED


@pytest.mark.parametrize(
    ("state", "follower", "leader", "new_member", "old_new_member"),
    [
        (EMPTY, 25, 25, 79, PARKED),
        (PREPARING, PARKED, PARKED, 79, PARKED),
        (COMPLETING, 0, 0, 79, PARKED),
        (STABLE, 0, PARKED, 79, PARKED),
        (DEAD, 25, 25, 79, PARKED),
    ],
)
def test_join_group_in_every_state(
    state: GroupState, follower: object, leader: object, new_member: object, old_new_member: object
) -> None:
    driver, _, member, _ = driver_in(state)
    assert join_code(driver, member) == follower
    driver, lead, _, _ = driver_in(state)
    assert join_code(driver, lead) == leader
    driver, *_ = driver_in(state)
    assert join_code(driver, "") == new_member
    driver, *_ = driver_in(state)
    assert join_code(driver, "", version=3) == old_new_member


@pytest.mark.parametrize(
    ("state", "follower", "leader"),
    [(EMPTY, 25, 25), (PREPARING, 27, 27), (COMPLETING, PARKED, 0), (STABLE, 0, 0), (DEAD, 25, 25)],
)
def test_sync_group_in_every_state(state: GroupState, follower: object, leader: object) -> None:
    driver, _, member, generation_id = driver_in(state)
    answer = driver.sync(member, generation_id)
    assert (answer.value.error_code if answer.done else PARKED) == follower
    driver, lead, _, generation_id = driver_in(state)
    answer = driver.sync(lead, generation_id, {lead: b"work"})
    assert (answer.value.error_code if answer.done else PARKED) == leader


@pytest.mark.parametrize(
    ("state", "code"), [(EMPTY, 25), (PREPARING, 27), (COMPLETING, 0), (STABLE, 0), (DEAD, 25)]
)
def test_heartbeat_in_every_state(state: GroupState, code: int) -> None:
    driver, _, member, generation_id = driver_in(state)
    assert driver.heartbeat(member, generation_id) == code


@pytest.mark.parametrize(
    ("state", "code", "after"),
    [
        (EMPTY, 25, EMPTY),
        (PREPARING, 0, PREPARING),
        (COMPLETING, 0, PREPARING),
        (STABLE, 0, PREPARING),
        (DEAD, 25, DEAD),
    ],
)
def test_leave_group_in_every_state(state: GroupState, code: int, after: GroupState) -> None:
    driver, _, member, _ = driver_in(state)
    (left,) = driver.leave(member).value.members
    assert left.error_code == code
    assert driver.state() is after


@pytest.mark.parametrize(
    ("state", "member_code", "no_member_code"),
    [(EMPTY, 25, 0), (PREPARING, 0, 25), (COMPLETING, 27, 25), (STABLE, 0, 25), (DEAD, 69, 0)],
)
def test_offset_commit_in_every_state(
    state: GroupState, member_code: int, no_member_code: int
) -> None:
    driver, _, member, generation_id = driver_in(state)
    codes = driver.commit(("t", 0, 5), member_id=member, generation_id=generation_id)
    assert codes == [member_code]
    assert driver.fetch("t", 0) == (5 if member_code == 0 else -1, 0)
    driver, *_ = driver_in(state)
    assert driver.commit(("t", 0, 5)) == [no_member_code]


@pytest.mark.parametrize(
    ("state", "member_code"),
    [(EMPTY, 25), (PREPARING, 0), (COMPLETING, 0), (STABLE, 0), (DEAD, 22)],
)
def test_txn_offset_commit_in_every_state(state: GroupState, member_code: int) -> None:
    driver, _, member, generation_id = driver_in(state)
    codes = driver.txn_commit(7, ("t", 0, 5), member_id=member, generation_id=generation_id)
    assert codes == [member_code]
    # Clients before KIP-447 send no member id and no generation, and are accepted.
    driver, *_ = driver_in(state)
    assert driver.txn_commit(7, ("t", 0, 5), version=2) == [0]


@pytest.mark.parametrize(
    ("state", "code"), [(EMPTY, 0), (PREPARING, 68), (COMPLETING, 68), (STABLE, 68), (DEAD, 69)]
)
def test_delete_groups_in_every_state(state: GroupState, code: int) -> None:
    driver, *_ = driver_in(state)
    (result,) = driver.delete(GROUP).value
    assert result.error_code == code
    if code == 0:
        assert driver.state() is DEAD


@pytest.mark.parametrize(
    ("state", "subscribed_code", "other_code", "group_code"),
    [
        (EMPTY, 0, 0, 0),
        (PREPARING, 86, 0, 0),
        (COMPLETING, 86, 0, 0),
        (STABLE, 86, 0, 0),
        (DEAD, 0, 0, 69),
    ],
)
def test_offset_delete_in_every_state(
    state: GroupState, subscribed_code: int, other_code: int, group_code: int
) -> None:
    driver, *_ = driver_in(state)
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition()])
            for name in ("subscribed", "other")
        ],
    )
    response = driver.delete_offsets(request).value
    assert response.error_code == group_code
    if not group_code:
        codes = [topic.partitions[0].error_code for topic in response.topics]
        assert codes == [subscribed_code, other_code]


@pytest.mark.parametrize(
    ("state", "protocol", "member_count"),
    [(EMPTY, "", 0), (PREPARING, "", 3), (COMPLETING, "", 2), (STABLE, "range", 2)],
)
def test_a_group_is_described_in_every_state(
    state: GroupState, protocol: str, member_count: int
) -> None:
    driver, *_ = driver_in(state)
    described = driver.run(driver.shard.describe_group(GROUP)).value
    assert described is not None
    assert described.state == state.value
    assert described.protocol_name == protocol
    assert len(described.members) == member_count
    shows_metadata = {bool(member.metadata) for member in described.members}
    assert shows_metadata <= {state is STABLE}


def test_a_dead_group_is_not_described() -> None:
    driver, *_ = driver_in(DEAD)
    assert driver.run(driver.shard.describe_group(GROUP)).value is None


@pytest.mark.parametrize("state", list(GroupState))
def test_offset_fetch_never_fails_whatever_the_state(state: GroupState) -> None:
    driver, *_ = driver_in(state)
    assert driver.fetch("t", 0) == (-1, 0)
