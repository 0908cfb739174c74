"""Moves the metadata of a single broker to etcd."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_server.cluster import records
from oncelog_server.cluster.store import MAX_OPERATIONS, Created, MetadataStore, Put


class NotEmpty(ValueError):
    """The prefix in etcd has keys of something else."""


async def check_empty(store: MetadataStore, writes: Sequence[Put]) -> None:
    """Raise NotEmpty if the store has a cluster, or keys that are not in `writes`. An interrupted
    move may have left keys of `writes`. Raises OSError."""
    if await store.get(records.CLUSTER) is not None:
        raise NotEmpty("a cluster has this prefix")
    ours = {write.key for write in writes}
    other = [entry.key for entry in (await store.range("")).entries if entry.key not in ours]
    if other:
        raise NotEmpty(f"there are other keys with this prefix, such as {other[0]}")


async def move(store: MetadataStore, writes: Sequence[Put]) -> int:
    """Write the records, the last one last. Return the revision of the last one.

    Raises NotEmpty if a cluster appears meanwhile. Raises OSError; the move can then be repeated.
    """
    nothing = (Created(records.CLUSTER, 0),)
    revision = 0
    *others, cluster = writes
    batches = [others[at : at + MAX_OPERATIONS] for at in range(0, len(others), MAX_OPERATIONS)]
    for batch in (*batches, [cluster]):
        result = await store.txn(nothing, batch)
        if not result.succeeded:
            raise NotEmpty("a cluster has this prefix")
        revision = result.revision
    return revision
