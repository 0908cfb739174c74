"""The interface of a group of any protocol, for offsets, expiry and listings.

Each protocol has its own package with a class of groups (classic; KIP-848 and share groups could
follow). `shard.py` connects these packages.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_server.group.history import History
from oncelog_server.views.groups import GroupDetails


class Group(Protocol):
    """A group of any protocol. `type` and `state_name` are the names on the wire (ListGroups)."""

    group_id: str
    protocol_type: str | None
    history: History

    @property
    def type(self) -> str: ...

    @property
    def state_name(self) -> str: ...

    @property
    def live_generation(self) -> int | None:
        """Return the generation. Return None if the group has no members."""
        ...

    @property
    def is_unused(self) -> bool:
        """Return True if the group exists only because of its offsets."""
        ...

    def has_member(self, member_id: str) -> bool: ...

    def check_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Raise Refused unless this member may write offsets. The codes are UNKNOWN_MEMBER_ID,
        FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS and
        COORDINATOR_NOT_AVAILABLE."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    @property
    def offset_delete_code(self) -> ErrorCode:
        """Return the error with which OffsetDelete is refused for all topics, or NONE."""
        ...

    @property
    def delete_code(self) -> ErrorCode:
        """Return the error with which DeleteGroups is refused, or NONE."""
        ...

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return the time (ms) from which the retention of an offset counts, if the group is not
        subscribed to its topic. Return None if no offset expires in the present state of the
        group."""
        ...

    def describe(self) -> GroupDetails: ...
