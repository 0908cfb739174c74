"""Decides InitProducerId of a producer in a consumer group (KIP-447, early draft) that was deleted
and created again. The group's generations then start from 1 again. Without this module, the
coordinator would refuse the new generations until they are as high as the old generations."""

from __future__ import annotations

from typing import Final

from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.grouped.init import detach
from oncelog_server.transaction.grouped.together import together
from oncelog_server.transaction.results import BUSY, TransactionResult
from oncelog_server.transaction.shard import TransactionShard
from oncelog_server.transaction.states import State

# Maximum number of transactional ids that one batch of records removes from the group.
AT_ONCE: Final = 500


def decide_start_over(
    shard: TransactionShard, group_id: str, caller: ClientRequest | None, *, wall_ms: int
) -> Decision[TransactionResult]:
    """Respond with CONCURRENT_TRANSACTIONS, so that the caller retries. While the group has
    incomplete transactions, abort the open ones. After that, fence the ids of the group and remove
    them from the group. The group begins again after its last id is removed."""
    names = shard.groups.ids_of(group_id)
    lives = [live for name in names if (live := shard.get(name)) is not None]
    unfinished = [live for live in lives if live.is_busy or live.metadata.state is State.ONGOING]
    reason = Reason(FenceCause.NEWER_GENERATION, caller)
    if unfinished:
        # A transaction in a two-phase commit is not aborted, because an external coordinator
        # decides its outcome (KIP-939).
        aborts = [
            fence(live, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)
            for live in unfinished
            if not live.is_busy and not live.metadata.is_two_phase
        ]
        return together(aborts, BUSY) if aborts else Decision(BUSY)
    leaving = set(names[:AT_ONCE])
    detached = [
        detach(live, reason, wall_ms=wall_ms)
        for live in lives
        if live.metadata.transactional_id in leaving and live.metadata.state is not State.DEAD
    ]
    return together(detached, BUSY, also=shard.groups.removal(sorted(leaving)))
