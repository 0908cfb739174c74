"""One member of a classic group, and its pending responses.

Source: Kafka's ClassicGroupMember.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable
from typing import Generic, TypeVar

import msgspec

from oncelog_protocol.messages.join_group import JoinGroupResponse
from oncelog_protocol.messages.sync_group import SyncGroupResponse
from oncelog_server.deferred import Deferred

R = TypeVar("R")

# (name, metadata) in the member's order of preference.
Protocols = tuple[tuple[str, bytes], ...]

# Approximate memory of a member without its strings, for the limit on a group's size.
_MEMBER_OVERHEAD_BYTES = 2048
# Approximate memory of a protocol without its name and metadata. A request may have 10,000.
_PROTOCOL_OVERHEAD_BYTES = 160


class Parked(msgspec.Struct, Generic[R], frozen=True):
    """A pending response with the version of its request."""

    answer: Deferred[R]
    api_version: int


class Member(msgspec.Struct, kw_only=True):
    """A member of a group. Only the group's methods set `awaiting_join`, because they also count
    the waiting members."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    # True in the first join phase of the member. A new member may not know its member id, so it
    # sends no heartbeats.
    is_new: bool = False
    awaiting_join: Parked[JoinGroupResponse] | None = None
    awaiting_sync: Parked[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        """Return True if the member is static: it has a group instance id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_alive_without_heartbeats(self) -> bool:
        """Return True if the member needs no heartbeats because it waits for a response. Return
        False for a new member, because its timer removes it even while it waits."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )

    @property
    def misses_join(self) -> bool:
        """Return True if the end of a join phase removes the member. A static member stays, even if
        the member has not joined."""
        return self.awaiting_join is None and not self.is_static

    @property
    def size_bytes(self) -> int:
        """Return the approximate size of the member in memory and in the group's record."""
        return (
            _MEMBER_OVERHEAD_BYTES
            + len(self.member_id)
            + len(self.client_id)
            + protocols_size(self.protocols)
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for the chosen protocol. Return no bytes if the member does
        not know this protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def successor(self, member_id: str) -> Member:
        """Return a member with the same settings and assignment under another member id, without
        parked responses."""
        return Member(
            member_id=member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def vote(self, candidates: Container[str]) -> str | None:
        """Return the first of the member's protocols that is in `candidates`."""
        return next((name for name, _ in self.protocols if name in candidates), None)


def protocols_size(protocols: Iterable[tuple[str, bytes]]) -> int:
    """Return the approximate size of a member's protocols in memory."""
    return sum(_PROTOCOL_OVERHEAD_BYTES + len(name) + len(metadata) for name, metadata in protocols)


def preferred_protocol(members: Collection[Member]) -> str | None:
    """Return the protocol with most votes among the protocols that all members know. In a tie,
    return the protocol with the first vote. Return None without members."""
    known = Counter(name for member in members for name in {name for name, _ in member.protocols})
    candidates = {name for name, count in known.items() if count == len(members)}
    choices = [member.vote(candidates) for member in members]
    votes = Counter(choice for choice in choices if choice is not None)
    return max(votes, key=votes.__getitem__, default=None)
