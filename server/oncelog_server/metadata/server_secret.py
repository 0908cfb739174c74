"""The secret that all brokers of a cluster share."""

from __future__ import annotations

from oncelog_server.cluster import records
from oncelog_server.cluster.store import Created, MetadataStore, Put


async def server_secret(store: MetadataStore, drawn: bytes) -> bytes:
    """Return the secret of the cluster. `drawn` becomes the secret if there is none yet.

    Raises OSError if the store fails. Raises ValueError if the record cannot be decoded.
    """
    record = records.encode(records.ServerSecretRecord(drawn))
    await store.txn([Created(records.SERVER_SECRET, 0)], [Put(records.SERVER_SECRET, record)])
    entry = await store.get(records.SERVER_SECRET)
    if entry is None:
        raise OSError("the secret of the cluster is missing from the metadata")
    return records.decode(records.ServerSecretRecord, entry.value).secret
