"""Moves the metadata of a single broker to etcd."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_server.cluster import records
from oncelog_server.cluster.store import MAX_OPERATIONS, Created, MetadataStore, Put


class NotEmpty(ValueError):
    """The prefix in etcd has keys of something else."""


async def completed_move(store: MetadataStore, writes: Sequence[Put]) -> int | None:
    """Return None if the store has none of `writes`, or those that an interrupted move has left. If
    the store has the records of `writes` and no others, the move is complete: return the revision
    of its last write.

    Raises NotEmpty if the store has another cluster, or keys that are not in `writes`. Raises
    OSError.
    """
    found = {entry.key: entry for entry in (await store.range("")).entries}
    lasting = {key: e.value for key, e in found.items() if not key.startswith(records.LEASED)}
    cluster = found.get(records.CLUSTER)
    if cluster is not None:
        if lasting == {write.key: write.value for write in writes}:
            return cluster.mod_revision
        raise NotEmpty("a cluster has this prefix")
    ours = {write.key for write in writes}
    other = [key for key in found if key not in ours]
    if other:
        raise NotEmpty(f"there are other keys with this prefix, such as {other[0]}")
    return None


async def moved(store: MetadataStore, writes: Sequence[Put]) -> int:
    """Make the move, unless it is complete already. Return the revision of its last write. Raises
    NotEmpty and OSError."""
    revision = await completed_move(store, writes)
    return await move(store, writes) if revision is None else revision


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
