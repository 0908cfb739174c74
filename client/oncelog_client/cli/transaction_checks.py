"""Checks of transactions, and of the readers that open transactions hold back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.findings import NOTICE, PROBLEM, Row, row_of
from oncelog_client.cli.group_lags import lags_in
from oncelog_client.cli.hanging import open_transactions
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

HANGING = "hanging transactions"


async def transactions(admin: Admin, state: ClusterState) -> AsyncIterator[Row]:
    """Hanging transactions, open transactions that hold readers back, and the groups of these
    readers. The groups come last, because there may be many."""
    led = [place for place, info in state.partitions.items() if info.leader is not None]
    waiting = await _held_back(admin, led)
    found = await open_transactions(admin, waiting) if waiting else []
    hanging = sorted({_named(transaction) for transaction in found if transaction.is_hanging})
    is_open = sorted({_named(transaction) for transaction in found if not transaction.is_hanging})
    yield row_of(HANGING, PROBLEM, hanging, "oncelog txn blocking TOPIC shows how to end them")
    to_do = "oncelog txn list --state Ongoing shows them; end old ones"
    yield row_of("open transactions", NOTICE, is_open, to_do)
    readers = await _waiting_groups(admin, {transaction.place for transaction in found})
    to_do = "oncelog group describe GROUP, oncelog txn blocking TOPIC"
    yield row_of("groups held back", NOTICE, readers, to_do)


def _named(transaction: Any) -> str:
    if transaction.description is not None:
        return str(transaction.description.transactional_id)
    return f"producer {transaction.producer.producer_id} in {transaction.place}"


async def _held_back(admin: Admin, places: list[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions in which readers of committed records cannot read to the end. The ends
    come first. If no transaction is open, the later last stable offset is not below them, although
    records are appended meanwhile."""
    if not places:
        return []
    specs: dict[TopicPartition, Any] = dict.fromkeys(places, "latest")
    ends = await admin.list_offsets(specs)
    stable = await admin.list_offsets(specs, isolation_level="read_committed")
    return [place for place in places if stable[place].offset < ends[place].offset]


async def _waiting_groups(admin: Admin, places: set[TopicPartition]) -> list[str]:
    """Return the groups with unread records that open transactions hold back in these
    partitions."""
    if not places:
        return []
    return [
        group.group_id
        for group, lags in await lags_in(admin, places)
        if any(lag.held_back for lag in lags.values())
    ]
