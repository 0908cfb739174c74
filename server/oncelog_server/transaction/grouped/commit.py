"""EndTxn that decides many transactions of a group with one record batch: ours (feature
`oncelog.group.transactions`).

All transactional ids of a group are in one partition of `__transaction_state`, so all their PREPARE
records can be one append: any crash leaves all of them decided or none.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.commands.end_txn import EndTxn, target_of, verdict_on
from oncelog_server.transaction.grouped.refusals import refuse_outdated
from oncelog_server.transaction.grouped.together import decide_each, together
from oncelog_server.transaction.metadata import Member
from oncelog_server.transaction.results import (
    BUSY,
    FENCED,
    INVALID_REQUEST,
    INVALID_STATE,
    UNKNOWN_PRODUCER,
    TransactionResult,
)
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State, Verdict

BUMPS_EPOCH_SINCE_TRANSACTION_VERSION = 2


def decide_group_commit(
    shard: TransactionShard,
    command: EndTxn,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Nothing is written unless the id and every member is Ongoing with exactly the producer id and
    epoch that are named; a refusal says whom it is about. A retry with the same members is answered
    as the first call was; one with others, or none, is INVALID_TXN_STATE.

    Members end as their own clients' EndTxn would end them: those that speak transaction version 2
    get a new epoch, which their next InitProducerId tells them.
    """
    live = shard.get(command.transactional_id)
    membership = shard.groups.memberships.get(command.transactional_id)
    if live is None or membership is None or membership.group_id != command.group_id:
        return Decision(shard.refuse_unknown())
    named = {member.transactional_id for member in command.members}
    if len(named) < len(command.members) or command.transactional_id in named:
        return Decision(INVALID_REQUEST)
    verdict = verdict_on(live, command)
    if isinstance(verdict, TransactionResult):
        if verdict in (FENCED, UNKNOWN_PRODUCER):
            verdict = shard.refuse(live, command.producer_id, command.producer_epoch, verdict)
        return Decision(verdict)
    if verdict is not Verdict.PREPARE:
        return Decision(INVALID_STATE)
    for member in command.members:
        refusal = _refusal(shard, member, membership.group_id, wall_ms)
        if refusal is not None:
            return Decision(replace(refusal, refused_member=member.transactional_id))
    ends = [(live, command)]
    for member in command.members:
        found = shard.transactions[member.transactional_id]
        ends.append((found, EndTxn(*member, command.committed, _bumps_epoch(found))))
    # All of them first: there may be no producer id left for one whose epochs are used up.
    targets = [
        (one, target_of(one.metadata, end, verdict, wall_ms, new_producer_id)) for one, end in ends
    ]
    answer: Deferred[TransactionResult] = Deferred()
    live.waiting.append(answer)

    def failed(code: ErrorCode) -> TransactionResult:
        live.waiting.remove(answer)
        return TransactionResult(code)

    own, *others = decide_each(
        shard.decide(one, target, answer, failed if one is live else TransactionResult)
        for one, target in targets
    )
    return together([*others, own], answer)


def _refusal(
    shard: TransactionShard, member: Member, group_id: str, wall_ms: int
) -> TransactionResult | None:
    live = shard.get(member.transactional_id)
    membership = shard.groups.memberships.get(member.transactional_id)
    if live is None or membership is None or membership.group_id != group_id:
        return shard.refuse_unknown()
    producer = member.producer_id, member.producer_epoch
    if shard.groups.is_outdated(member.transactional_id):
        return refuse_outdated(shard, live, producer, wall_ms)
    metadata = live.metadata
    if metadata.owner[0] != member.producer_id:
        return shard.refuse(live, *producer, UNKNOWN_PRODUCER)
    if not metadata.is_held_by(member.producer_id, member.producer_epoch):
        return shard.refuse(live, *producer)
    if live.is_busy:
        return BUSY
    return None if metadata.state is State.ONGOING else INVALID_STATE


def _bumps_epoch(live: LiveTransaction) -> bool:
    return live.metadata.client_transaction_version >= BUMPS_EPOCH_SINCE_TRANSACTION_VERSION
