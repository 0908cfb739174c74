"""The lags of groups in some partitions, for commands that look at all groups."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, GroupListing, PartitionLag
    from oncelog_client.values import TopicPartition

# Maximum number of groups with requests in flight at once.
MOST_AT_ONCE: Final = 16


async def lags_in(
    admin: Admin, places: Collection[TopicPartition]
) -> list[tuple[GroupListing, dict[TopicPartition, PartitionLag]]]:
    """Return the groups with committed offsets in `places`, in the order of the broker, and their
    lags there. Most groups have none, and cost one request."""
    limit = asyncio.Semaphore(MOST_AT_ONCE)

    async def look(group: GroupListing) -> dict[TopicPartition, PartitionLag]:
        async with limit:
            committed = await admin.list_group_offsets(group.group_id)
            if committed.keys().isdisjoint(places):
                return {}
            lags = await admin.describe_group_lag(group.group_id)
        return {place: lag for place, lag in lags.items() if place in places}

    groups = await admin.list_groups()
    found = await asyncio.gather(*map(look, groups))
    return [(group, lags) for group, lags in zip(groups, found, strict=True) if lags]
