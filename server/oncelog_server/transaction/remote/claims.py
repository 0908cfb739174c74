"""Decides how a transactional id moves between the shards of different brokers (KIP-447, early
draft).

A group that takes an id first claims it at the shard of the id. If the id has no group, the claim
fences its producer there. If another group has the id, the claim changes nothing, and the caller
gets the pointer to that group. The caller lets the id depart from that group, and names the pointer
in a second claim. Each successful claim writes a new pointer. So if two callers have let the id
depart, only the first of their second claims succeeds. The later one finds a newer pointer.

A departure writes a record even if the shard does not have the id. A deposed leader may not know
that the shard has the id, but it cannot commit the record, so the departure fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.decisions import append_failed, refuse
from oncelog_server.transaction.effects import PointerPending
from oncelog_server.transaction.fences import taken_over_by
from oncelog_server.transaction.grouped.init import detach
from oncelog_server.transaction.grouped.owners import is_here, is_open
from oncelog_server.transaction.grouped.together import together
from oncelog_server.transaction.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from oncelog_server.transaction.pointers import Pointer, to_record
from oncelog_server.transaction.results import BUSY, INVALID_STATE, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard

NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def decide_claim(
    shard: TransactionShard,
    transactional_id: str,
    group_id: str,
    *,
    producer: tuple[int, int],
    keep_prepared: bool,
    caller: ClientRequest | None,
    wall_ms: int,
) -> Decision[TransactionResult]:
    """Decide that the group takes the id, in the shard of the id. The caller must have checked that
    no other group has the id. `producer`: the id and epoch that an InitProducerId names. Respond
    with CONCURRENT_TRANSACTIONS until no producer has an open transaction here."""
    live = shard.get(transactional_id)
    if shard.pointers.is_pending(transactional_id) or (live is not None and live.is_busy):
        return Decision(BUSY)
    record = to_record(transactional_id, group_id, wall_ms)
    pending = PointerPending(transactional_id)
    if live is None or not is_here(shard, transactional_id) or shard.group_of(transactional_id):
        return Decision(SUCCESS, (record,), effects=(pending,), failed=append_failed)
    left = _leaving(live, producer, keep_prepared=keep_prepared, caller=caller, wall_ms=wall_ms)
    if left is not None:
        return left
    gone = detach(live, taken_over_by(caller), wall_ms=wall_ms)
    return together([gone], SUCCESS, also=(record,), effects=(pending,))


def decide_departure_from(
    shard: TransactionShard,
    transactional_id: str,
    group_id: str,
    *,
    producer: tuple[int, int],
    keep_prepared: bool,
    caller: ClientRequest | None,
    wall_ms: int,
) -> Decision[TransactionResult]:
    """Decide that the id leaves the group, in the shard of the group. Respond with SUCCESS once no
    producer can have the id's epoch in the group, with CONCURRENT_TRANSACTIONS until then."""
    live = shard.get(transactional_id)
    if live is not None and live.is_busy:
        return Decision(BUSY)
    departure = shard.groups.departure(transactional_id, group_id)
    if live is None or not is_here(shard, transactional_id):
        return Decision(SUCCESS, departure, failed=append_failed)
    if shard.group_of(transactional_id) != group_id:
        return Decision(SUCCESS, departure, failed=append_failed)
    left = _leaving(live, producer, keep_prepared=keep_prepared, caller=caller, wall_ms=wall_ms)
    if left is not None:
        return left
    gone = detach(live, taken_over_by(caller), wall_ms=wall_ms)
    return together([gone], SUCCESS, also=departure)


def _leaving(
    live: LiveTransaction,
    producer: tuple[int, int],
    *,
    keep_prepared: bool,
    caller: ClientRequest | None,
    wall_ms: int,
) -> Decision[TransactionResult] | None:
    """Return the decision of an id that cannot leave its owner now: the call is refused, or the
    open transaction is aborted first. Return None if the id may leave."""
    if producer != NO_PRODUCER:
        # The caller requests the next epoch, but the id belongs to another group, or to no group.
        return refuse(live, *producer)
    if not is_open(live):
        return None
    if keep_prepared:
        # Only the coordinator that has the transaction can keep the transaction open.
        return Decision(INVALID_STATE)
    reason = taken_over_by(caller)
    return fence(live, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)


def decide_pointers(groups: Iterable[tuple[str, str]], *, wall_ms: int) -> Decision[bool]:
    """Decide that these ids, each with its group, point to their groups. The response is True when
    the pointers are committed, else False."""
    records, effects = [], []
    for transactional_id, group_id in groups:
        records.append(to_record(transactional_id, group_id, wall_ms))
        effects.append(PointerPending(transactional_id))
    return Decision(True, tuple(records), effects=tuple(effects), failed=lambda code: False)


def decide_pointer_removal(
    shard: TransactionShard, transactional_id: str, pointer: Pointer
) -> Decision[TransactionResult]:
    """Decide that an id has no pointer any more, because its group has let the id expire. A newer
    pointer stays."""
    pointers = shard.pointers
    if pointers.is_pending(transactional_id) or pointers.get(transactional_id) != pointer:
        return Decision(BUSY)
    return Decision(
        SUCCESS,
        pointers.removal(transactional_id),
        effects=(PointerPending(transactional_id),),
        failed=append_failed,
    )
