"""The state of a group shard that its parts (join, sync, offsets, …) share."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.types import cut_utf8
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.group import Group
from oncelog_server.group.moment import Moment
from oncelog_server.group.offsets import Offsets
from oncelog_server.group.records import LONGEST_NAME_BYTES
from oncelog_server.group.timers import CoordinatorTimer

# The action of a timer.
Fire = Callable[[Moment], Decision[None] | None]
Records = tuple[CoordinatorRecord, ...]


class GroupTable:
    """Groups by id, their offsets and timers."""

    __slots__ = ("_new_member_id", "config", "groups", "latest", "offsets", "timers")

    def __init__(self, config: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        self.config = config
        self._new_member_id = new_member_id
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.timers: CoordinatorTimer[Fire] = CoordinatorTimer()
        # The time of the last request or timer. Effects that act when a record is committed use
        # this time too.
        self.latest = Moment(now_ms=0, wall_ms=0)

    def new_member_id(self, name: str) -> str:
        """Return a unique id from a client id or a group instance id. A long name is cut, because
        each response of the group must have room for the id with its suffix."""
        return self._new_member_id(cut_utf8(name, LONGEST_NAME_BYTES).decode())
