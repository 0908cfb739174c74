"""Aborts the transactions of older producers with the same input partitions (KIP-447, early draft,
"Compatibility fencing")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.deferred import gather, then
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.grouped.concurrent_commit import (
    decide_concurrent_commit,
    transactions_of,
)
from oncelog_server.transaction.grouped.owners import Answer, worst
from oncelog_server.transaction.shard import TransactionShard


def abort_producers(
    runtime: ShardRuntime[TransactionShard],
    shards: Iterable[tuple[int, TransactionShard]],
    producer_ids: frozenset[int],
    caller: ClientRequest | None,
    *,
    wall_ms: int,
    next_producer_id: Callable[[int], int],
) -> Answer:
    """Abort the open transactions of these producers in these shards, by
    `decide_concurrent_commit`. Return the worst result (see `worst`). A producer without a
    transaction in these shards has ended its transaction, or its transaction is in another
    shard."""
    answers = []
    for index, shard in shards:
        for live in transactions_of(shard, producer_ids):
            decision = decide_concurrent_commit(
                live,
                caller,
                wall_ms=wall_ms,
                new_producer_id=partial(next_producer_id, live.metadata.owner[0]),
            )
            answers.append(runtime.run(index, decision))
    return then(gather(answers), worst)
