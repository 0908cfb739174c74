"""Checks of transactions, and of the readers that open transactions hold back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.findings import NOTICE, PROBLEM, Row, row_of
from oncelog_client.cli.hanging import open_transactions
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

HANGING = "hanging transactions"


async def transactions(admin: Admin, state: ClusterState) -> list[Row]:
    """Hanging transactions, open transactions that hold readers back, and the groups of these
    readers."""
    led = [place for place, info in state.partitions.items() if info.leader is not None]
    waiting = await _held_back(admin, led)
    found = await open_transactions(admin, waiting) if waiting else []
    hanging = sorted({_named(transaction) for transaction in found if transaction.is_hanging})
    is_open = sorted({_named(transaction) for transaction in found if not transaction.is_hanging})
    readers = await _waiting_groups(admin, set(waiting)) if waiting else []
    return [
        row_of(HANGING, PROBLEM, hanging, "oncelog txn blocking TOPIC shows how to end them"),
        row_of(
            "open transactions",
            NOTICE,
            is_open,
            "oncelog txn list --state Ongoing shows them; end old ones",
        ),
        row_of(
            "groups held back",
            NOTICE,
            readers,
            "oncelog group describe GROUP, oncelog txn blocking TOPIC",
        ),
    ]


def _named(transaction: Any) -> str:
    if transaction.description is not None:
        return str(transaction.description.transactional_id)
    return f"producer {transaction.producer.producer_id} in {transaction.place}"


async def _held_back(admin: Admin, places: list[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions in which readers of committed records cannot read to the end."""
    if not places:
        return []
    specs: dict[TopicPartition, Any] = dict.fromkeys(places, "latest")
    stable, ends = await asyncio.gather(
        admin.list_offsets(specs, isolation_level="read_committed"), admin.list_offsets(specs)
    )
    return [place for place in places if stable[place].offset < ends[place].offset]


async def _waiting_groups(admin: Admin, places: set[TopicPartition]) -> list[str]:
    """Return the groups with unread records that open transactions hold back in these
    partitions."""
    names = [found.group_id for found in await admin.list_groups()]
    held = []
    for name in names:
        lags = await admin.describe_group_lag(name)
        if any(place in places and lag.held_back > 0 for place, lag in lags.items()):
            held.append(name)
    return held
