"""ListGroups reads the rows of very many groups in steps, including those that a filter hides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import GeneratorType
from typing import Any

from oncelog_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from oncelog_server.group.shard import GroupShard
from oncelog_server.group.views import GroupViews
from oncelog_server.handlers import list_groups
from oncelog_server.slices import SMALL, at_its_end
from tests.server.between_steps import Calls
from tests.server.group.driver import Driver
from tests.server.handlers.nodes import ask, broker, context

COUNT = 3 * SMALL


class LoadedGroups:
    """A coordinator with the groups of some shards."""

    def __init__(self, *drivers: Driver) -> None:
        self._shards = [driver.shard for driver in drivers]
        runtime: Any = self
        self.views = GroupViews(runtime)

    def shards(self) -> Iterator[tuple[int, GroupShard]]:
        return iter(list(enumerate(self._shards)))

    def check_loaded(self) -> None:
        pass


async def test_rows_are_read_in_steps_also_if_the_filter_hides_them() -> None:
    first, second = Driver(compares=False), Driver()
    for number in range(COUNT):
        first.commit(("t", 0, 1), group=f"simple-{number}")
    second.stable_group("a", group="stable")
    groups: Any = LoadedGroups(first, second)
    request = ListGroupsRequest(states_filter=["stable"])
    async with broker() as bare:
        services = replace(bare, groups=groups)
        calls = Calls()
        steps = calls.of(
            lambda: list_groups.handle(services, context(services, list_groups.API, 5), request)
        )
        assert isinstance(steps, GeneratorType)
        response: ListGroupsResponse = at_its_end(calls.counted(steps))
    assert response.groups == [ListedGroup("stable", "consumer", "Stable", "classic")]
    assert calls.steps > COUNT
    assert calls.most < COUNT / 10


async def test_groups_of_all_shards_are_listed() -> None:
    first, second = Driver(), Driver()
    first.commit(("t", 0, 1), group="simple")
    second.stable_group("a", group="stable")
    groups: Any = LoadedGroups(first, second)
    async with broker() as bare:
        services = replace(bare, groups=groups)
        response = await ask(list_groups, services, ListGroupsRequest())
    assert [(group.group_id, group.group_state) for group in response.groups] == [
        ("simple", "Empty"),
        ("stable", "Stable"),
    ]
