"""An operator's work after a power loss that has removed acknowledged records."""

from __future__ import annotations

from typing import Final

from oncelog_client import Admin, TopicPartition
from oncelog_client.admin import AbortTransactionSpec

UNDECIDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


async def abort_hanging(admin: Admin, partitions: list[TopicPartition]) -> int:
    """Abort the hanging transactions in these partitions, as `kafka-transactions find-hanging` and
    `abort` do (KIP-664). No coordinator knows such a transaction. Return the number of aborted
    transactions."""
    producers = await admin.describe_producers(partitions)
    known = {
        list_transaction.producer_id
        for list_transaction in await admin.list_transactions(states=UNDECIDED)
    }
    hanging = [
        AbortTransactionSpec(
            place, producer.producer_id, producer.producer_epoch, -1 if epoch is None else epoch
        )
        for place, found in producers.items()
        for producer in found
        if producer.current_transaction_start_offset is not None
        and producer.producer_id not in known
        for epoch in [producer.coordinator_epoch]
    ]
    for spec in hanging:
        await admin.abort_transaction(spec)
    return len(hanging)
