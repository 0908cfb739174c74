"""The response of DescribeGroups shows every field of the group's read model, in every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from oncelog_server.handlers import describe_groups
from oncelog_server.security.access import NOT_ASKED_FOR
from oncelog_server.views.groups import GroupDetails, MemberView
from tests.server.handlers.nodes import ask, broker

STABLE = GroupDetails(
    "g",
    "Stable",
    "consumer",
    "range",
    (MemberView("m-1", "i", "m", "/127.0.0.1", b"subscription", b"assignment"),),
)


class OneGroup:
    """A coordinator that shows one group."""

    def describe(self, group_id: str) -> GroupDetails | None:
        return STABLE if group_id == STABLE.group_id else None


async def described(group_id: str, version: int) -> DescribedGroup:
    groups: Any = OneGroup()
    async with broker() as bare:
        services = replace(bare, groups=groups)
        response = await ask(
            describe_groups, services, DescribeGroupsRequest(groups=[group_id]), version
        )
        (group,) = response.groups
        assert isinstance(group, DescribedGroup)
        return group


@pytest.mark.parametrize("version", range(7))
async def test_a_group_is_described_with_its_members(version: int) -> None:
    instance_id = "i" if version >= 4 else None
    member = DescribedGroupMember(
        "m-1", instance_id, "m", "/127.0.0.1", b"subscription", b"assignment"
    )
    assert await described("g", version) == DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[member],
    )


@pytest.mark.parametrize(("version", "shown"), [(version, version < 6) for version in range(3, 7)])
async def test_operations_are_shown_unless_the_group_has_an_error(
    version: int, shown: bool
) -> None:
    """Since version 6, a group that does not exist has an error."""
    groups: Any = OneGroup()
    async with broker() as bare:
        services = replace(bare, groups=groups)
        request = DescribeGroupsRequest(["g", "x"], include_authorized_operations=True)
        found = (await ask(describe_groups, services, request, version)).groups
    operations = {group.group_id: group.authorized_operations for group in found}
    assert operations["g"] > 0
    assert operations["x"] == (operations["g"] if shown else NOT_ASKED_FOR)


@pytest.mark.parametrize("version", range(7))
async def test_an_unknown_group_is_dead_and_since_version_6_not_found(version: int) -> None:
    code, message = (69, "Group x not found.") if version >= 6 else (0, None)
    assert await described("x", version) == DescribedGroup(
        error_code=code, error_message=message, group_id="x", group_state="Dead"
    )
