"""The states of a classic consumer group, and the transitions between the states.

Source: Kafka's ClassicGroupState. The error codes are those of Kafka's GroupMetadataManager.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from oncelog_protocol.errors import ErrorCode


class GroupState(Enum):
    """The states. The value of a state is its name on the wire (DescribeGroups, ListGroups)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """The events of a group."""

    REBALANCE = "a member came, went or changed: all have to join again"
    JOINED = "the join phase is over, with members"
    EMPTIED = "the join phase is over, without members"
    ASSIGNED = "the leader's assignment is committed"
    REMOVED = "the group is deleted, or its shard has moved to another broker"


class IllegalTransition(Exception):
    """The table has no row for this state and event. This is a defect."""


TRANSITIONS: Final[dict[tuple[GroupState, GroupEvent], GroupState]] = {
    (GroupState.EMPTY, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.STABLE, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEvent.JOINED): GroupState.COMPLETING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEvent.EMPTIED): GroupState.EMPTY,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNED): GroupState.STABLE,
    (GroupState.EMPTY, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.PREPARING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.STABLE, GroupEvent.REMOVED): GroupState.DEAD,
}

# The response to a Heartbeat of a known member in the current generation. The generation may have
# no assignment yet.
HEARTBEAT_CODES: Final[dict[GroupState, ErrorCode]] = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# The response to DeleteGroups.
DELETE_CODES: Final[dict[GroupState, ErrorCode]] = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


def next_state(state: GroupState, event: GroupEvent) -> GroupState:
    """Return the state after `event`. Raises IllegalTransition if the table has no row."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"{event.name} in state {state.value}") from None
