"""Groups and members by the hundred thousand (H61)."""

from __future__ import annotations

import sys

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.group.classic.states import GroupState
from tests.server.group.driver import GROUP, Driver
from tests.server.resident import resident_growth

MANY = 100_000
# More joins than a group accepts. A test that needs only a full group makes this number of joins.
ENOUGH = 20_000
MIB = 1 << 20

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def many_groups() -> Driver:
    """Return a coordinator with groups. Each has a committed offset, so that the coordinator keeps
    it."""
    driver = Driver(compares=False)
    for number in range(MANY):
        assert driver.commit(("t", 0, 5), group=f"consumer-group-{number:08d}") == [0]
        del driver.log[:]
    assert len(driver.groups) == MANY
    return driver


def many_members(joins: int = MANY) -> tuple[Driver, list[object]]:
    """Send `joins` joins of new members to one group. The group accepts members until it is full,
    and refuses the rest. Return the coordinator and the parked responses of its members."""
    driver = Driver(compares=False)
    parked: list[object] = []
    refused = 0
    for _ in range(joins):
        answer = driver.join(version=3)
        if answer.done:
            assert answer.value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            refused += 1
        else:
            parked.append(answer)
        del driver.log[:]
    members = driver.groups[GROUP].members
    assert len(members) == len(parked) == joins - refused
    assert 10_000 < len(members) < ENOUGH
    return driver, parked


@needs_proc
def test_h61_a_hundred_thousand_groups_take_two_kibibytes_each() -> None:
    assert resident_growth(many_groups) / MANY < 2_048


@needs_proc
def test_h61_a_group_with_a_hundred_thousand_joins_takes_bounded_memory() -> None:
    """`group.max.size` is unlimited by default, as in Kafka; a group is limited to 32 MiB."""
    assert resident_growth(many_members) < 64 * MIB


def test_h61_a_full_group_refuses_a_new_member_and_its_members_continue() -> None:
    """The members of the full group form a generation. A further member is refused until some of
    them have left."""
    driver, _ = many_members(ENOUGH)
    group = driver.groups[GROUP]
    driver.advance(driver.config.group_initial_rebalance_delay_ms)
    while group.state is GroupState.PREPARING_REBALANCE:
        driver.advance(driver.config.group_initial_rebalance_delay_ms)
    assert group.generation_id == 1
    member = next(iter(group.members))
    assert driver.sync(member, 1, {member: b"all"}).value.error_code == ErrorCode.NONE
    assert driver.heartbeat(member, 1) == ErrorCode.NONE
    assert driver.join().value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.leave(*list(group.members)[1:101]).value.error_code == ErrorCode.NONE
    assert driver.join().value.error_code == ErrorCode.MEMBER_ID_REQUIRED
