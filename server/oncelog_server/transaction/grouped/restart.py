"""A consumer group that was made anew counts its generations from 1 again: its coordinator says so,
and what was known of the one before it must not refuse it for ever."""

from __future__ import annotations

from typing import Final

from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.caller import Caller
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.grouped.init import detach
from oncelog_server.transaction.grouped.together import decide_each, together
from oncelog_server.transaction.results import BUSY, TransactionResult
from oncelog_server.transaction.shard import TransactionShard
from oncelog_server.transaction.states import State

# Ids that are let go by one batch.
AT_ONCE: Final = 500


def decide_start_over(
    shard: TransactionShard, group_id: str, caller: Caller | None, *, wall_ms: int
) -> tuple[Decision[TransactionResult], list[str]]:
    """CONCURRENT_TRANSACTIONS, and the ids whose transactions are aborted. First what is open is
    ended, then every id of the group is fenced and let go; once none is left it begins anew."""
    names = shard.groups.ids_of(group_id)
    lives = [live for name in names if (live := shard.get(name)) is not None]
    unfinished = [live for live in lives if live.is_busy or live.metadata.state is State.ONGOING]
    reason = Reason(FenceCause.NEWER_GENERATION, caller)
    if unfinished:
        # A participant in two-phase commit is only ended by whoever decides it (KIP-939).
        abortable = [one for one in unfinished if not one.is_busy and not one.metadata.is_two_phase]
        if not abortable:
            return Decision(BUSY), []
        fences = decide_each(
            fence(shard, one, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)
            for one in abortable
        )
        return together(fences, BUSY), [one.metadata.transactional_id for one in abortable]
    leaving = set(names[:AT_ONCE])
    gone = decide_each(
        detach(shard, live, reason, wall_ms=wall_ms)
        for live in lives
        if live.metadata.transactional_id in leaving and live.metadata.state is not State.DEAD
    )
    return together(gone, BUSY, also=shard.groups.removal(sorted(leaving))), []
