"""One struct for each effect that a decision about a classic group has in addition to its records.
The functions that carry them out are in `group/shard.py` (`EFFECTS`)."""

from __future__ import annotations

import msgspec

from oncelog_server.group.classic.joining import Joining
from oncelog_server.group.classic.member import Protocols
from oncelog_server.group.moment import Moment


class MembersLeft(msgspec.Struct, frozen=True):
    """The members of one LeaveGroup have left the group. The remaining members share the work of
    these members."""

    group_id: str
    member_ids: tuple[str, ...]
    at: Moment


class SessionOver(msgspec.Struct, frozen=True):
    """The member sent no request within its session timeout, or the client did not use its assigned
    member id."""

    group_id: str
    member_id: str
    at: Moment


class InitialRebalanceProlonged(msgspec.Struct, frozen=True):
    """A member joined while the first rebalance waited for more members. The rebalance waits
    `delay_ms` longer. After that it may wait at most `remaining_ms` more (KIP-134)."""

    group_id: str
    delay_ms: int
    remaining_ms: int
    at: Moment


class JoinPhaseOver(msgspec.Struct, frozen=True):
    """The time to join has ended. The group continues with the members that have joined."""

    group_id: str
    at: Moment


class SyncPhaseOver(msgspec.Struct, frozen=True):
    """The time to sync has ended. The members that have not synced are removed from the group."""

    group_id: str
    at: Moment


class SyncReceived(msgspec.Struct, frozen=True):
    """The sync phase does not wait for the member any more."""

    group_id: str
    member_id: str


class AssignmentWritten(msgspec.Struct, frozen=True):
    """The leader's assignment is appended. After the commit every member gets its part. After a
    failure all members have to rejoin."""

    group_id: str
    generation_id: int
    assignments: dict[str, bytes]


class GroupCreated(msgspec.Struct, frozen=True):
    """A group is created with its first record. If the append fails, the group never existed."""

    group_id: str
    wall_ms: int


class MemberIdGiven(msgspec.Struct, frozen=True):
    """A client got a member id. The client has to join with this id within `timeout_ms`
    (KIP-394)."""

    group_id: str
    member_id: str
    timeout_ms: int
    at: Moment


class MemberJoined(msgspec.Struct, frozen=True):
    """A new member joined."""

    joining: Joining


class MemberRejoined(msgspec.Struct, frozen=True):
    """A member joined the next generation."""

    joining: Joining


class StaticMemberReturned(msgspec.Struct, frozen=True):
    """A static member came back under a new member id, which replaces its old member id.
    `rebalances` is False if the member keeps its assignment."""

    joining: Joining
    rebalances: bool


class MemberTurnedAway(msgspec.Struct, frozen=True):
    """The group is full. The member is removed from the group. A member id that was assigned
    (KIP-394) and has not joined yet is removed too."""

    group_id: str
    member_id: str
    at: Moment


class StaticMemberReplaced(msgspec.Struct, frozen=True):
    """A static member has rejoined a stable group under a new member id. After the commit the
    member continues with its assignment. After a failed append the group has the old member id and
    the old settings again."""

    group_id: str
    instance_id: str
    member_id: str
    old_member_id: str
    old_leader_id: str | None
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
