"""Decides a group commit: one EndTxn ends many transactions of a group with one record batch. Kafka
does not have group commits (feature `oncelog.group.transactions`).

All transactional ids of a group are in one partition of `__transaction_state`, so one append has
all their PREPARE records. After any crash, all the transactions are decided or none is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from oncelog_server.coordinator.shard import Decision, Park
from oncelog_server.transaction.commands.end_txn import EndTxn, target_of, verdict_on
from oncelog_server.transaction.decisions import REFUSE_UNKNOWN, change, refuse
from oncelog_server.transaction.effects import WriteMarkers
from oncelog_server.transaction.grouped.refusals import refuse_outdated
from oncelog_server.transaction.grouped.together import together
from oncelog_server.transaction.metadata import GroupedTransaction
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
from oncelog_server.transaction.takeover import is_known

BUMPS_EPOCH_SINCE_TRANSACTION_VERSION = 2


def decide_group_commit(
    shard: TransactionShard,
    command: EndTxn,
    *,
    wall_ms: int,
    next_producer_id: Callable[[int], int],
) -> Decision[TransactionResult]:
    """Decide all transactions if the request's own transactional id and every member that it names
    are Ongoing with exactly the producer id and epoch of the request. Otherwise refuse, with the
    member that caused the refusal. A retry with the same members gets the response of the first
    call. A retry with other members, or with none, gets INVALID_TXN_STATE.

    A member's state afterwards is the same as after its own EndTxn. A member of transaction version
    2 gets a new epoch, which its next InitProducerId returns. `next_producer_id` returns the
    producer id that replaces another one after its last epoch, or raises Refused.
    """
    live = shard.get(command.transactional_id)
    membership = shard.groups.memberships.get(command.transactional_id)
    if live is None or membership is None or membership.group_id != command.group_id:
        return REFUSE_UNKNOWN
    named = {member.transactional_id for member in command.members}
    if len(named) < len(command.members) or command.transactional_id in named:
        return Decision(INVALID_REQUEST)
    verdict = verdict_on(shard, live, command)
    if isinstance(verdict, TransactionResult):
        if verdict in (FENCED, UNKNOWN_PRODUCER):
            return refuse(live, command.producer_id, command.producer_epoch, verdict)
        return Decision(verdict)
    if verdict is not Verdict.PREPARE:
        return Decision(INVALID_STATE)
    for member in command.members:
        refused = _refusal(shard, member, membership.group_id, wall_ms)
        if refused is not None:
            assert isinstance(refused.response, TransactionResult)
            response = replace(refused.response, refused_member=member.transactional_id)
            return replace(refused, response=response)
    ends = []
    for member in command.members:
        found = shard.transactions[member.transactional_id]
        ends.append((found, EndTxn(*member, command.committed, _bumps_epoch(found))))
    # The id of the request is completed last, because its parked response must wait until readers
    # see all the transactions.
    ends.append((live, command))
    parked = Park((command.transactional_id,))
    prepared = [
        change(
            target_of(
                ended.metadata,
                end,
                verdict,
                wall_ms,
                partial(next_producer_id, ended.metadata.owner[0]),
            ),
            parked,
            WriteMarkers((end.transactional_id,)),
        )
        for ended, end in ends
    ]
    return together(prepared, parked)


def _refusal(
    shard: TransactionShard, member: GroupedTransaction, group_id: str, wall_ms: int
) -> Decision[TransactionResult] | None:
    live = shard.get(member.transactional_id)
    membership = shard.groups.memberships.get(member.transactional_id)
    if live is None or membership is None or membership.group_id != group_id:
        return REFUSE_UNKNOWN
    producer = member.producer_id, member.producer_epoch
    if shard.groups.is_outdated(member.transactional_id):
        return refuse_outdated(shard, live, producer, wall_ms)
    metadata = live.metadata
    if not is_known(shard, metadata, member.producer_id):
        return refuse(live, *producer, UNKNOWN_PRODUCER)
    if not metadata.is_held_by(member.producer_id, member.producer_epoch):
        return refuse(live, *producer)
    if live.is_busy:
        return Decision(BUSY)
    return None if metadata.state is State.ONGOING else Decision(INVALID_STATE)


def _bumps_epoch(live: LiveTransaction) -> bool:
    return live.metadata.client_transaction_version >= BUMPS_EPOCH_SINCE_TRANSACTION_VERSION
