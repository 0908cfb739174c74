"""The state of a group shard: what its parts (join, sync, offsets, …) share."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.types import cut_utf8
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.states import GroupEvent
from oncelog_server.group.classic.timers import TimerKey, Timers
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.moment import Moment
from oncelog_server.group.offsets import Offsets
from oncelog_server.group.records import LONGEST_NAME_BYTES

# What a timer does when it is due.
Fire = Callable[[Moment], Decision[None] | None]
Records = tuple[CoordinatorRecord, ...]


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer after which a member that does not beat is removed."""
    return ("session", group_id, member_id)


def join_key(group_id: str) -> TimerKey:
    """The timer that ends the join phase."""
    return ("join", group_id)


def sync_key(group_id: str) -> TimerKey:
    """The timer after which members that joined and did not sync are removed."""
    return ("sync", group_id)


class GroupTable:
    """Groups by id, their offsets and timers."""

    __slots__ = ("_new_member_id", "config", "groups", "latest", "offsets", "timers")

    def __init__(self, config: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        self.config = config
        self._new_member_id = new_member_id
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.timers: Timers[Fire] = Timers()
        # The time of the last request: effects of a commit happen no earlier.
        self.latest = Moment(now_ms=0, wall_ms=0)

    def new_member_id(self, name: str) -> str:
        """A unique id from a client id or a group instance id. Of a long one, its beginning: each
        response of the group has to hold the id, and adds a suffix to the longest there may be."""
        return self._new_member_id(cut_utf8(name, LONGEST_NAME_BYTES).decode())

    def drop_group(self, group: ClassicGroup, wall_ms: int) -> None:
        """Forget the group and its timers. Offsets go by their own tombstones."""
        for member_id in (*group.members, *group.pending_join_members):
            self.timers.cancel(session_key(group.group_id, member_id))
        self.timers.cancel(join_key(group.group_id))
        self.timers.cancel(sync_key(group.group_id))
        group.transition(GroupEvent.REMOVED, wall_ms)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Out of the group, with its timer; what it waits for is UNKNOWN_MEMBER_ID."""
        self.timers.cancel(session_key(group.group_id, member_id))
        group.remove(member_id)
