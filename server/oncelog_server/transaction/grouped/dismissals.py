"""If a group refuses a member, the transaction coordinator refuses the member's producer (KIP-447).
The table gives the transaction coordinator's reason for each reason of the group."""

from __future__ import annotations

from typing import Final

from oncelog_server.group.history import Dismissal, Why
from oncelog_server.transaction.fences import FenceCause, Reason

CAUSES: Final[dict[Why, FenceCause]] = {
    Why.NEWER_GENERATION: FenceCause.NEWER_GENERATION,
    Why.LEFT: FenceCause.LEFT_GROUP,
    Why.SESSION_TIMED_OUT: FenceCause.SESSION_TIMED_OUT,
    Why.MISSED_REBALANCE: FenceCause.MISSED_REBALANCE,
    Why.GROUP_FULL: FenceCause.GROUP_FULL,
    Why.REPLACED: FenceCause.NEWER_INSTANCE,
    Why.UNKNOWN: FenceCause.UNKNOWN_TO_GROUP,
}


def reason_of(dismissal: Dismissal) -> Reason:
    return Reason(CAUSES[dismissal.why], dismissal.by, dismissal.at_ms)
