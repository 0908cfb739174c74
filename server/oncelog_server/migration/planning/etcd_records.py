"""The records of a single broker, as the records of a cluster with its metadata in etcd."""

from __future__ import annotations

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.records import LEASED, RegistrationRecord
from oncelog_server.cluster.store import Put, Snapshot


def moved_records(snapshot: Snapshot) -> list[Put]:
    """Return the writes of all lasting records. The record of the cluster is the last one, so that
    an interrupted move leaves no cluster.

    The broker epoch is the revision at which a registration was written, and revisions begin anew
    in etcd. So a moved registration stores its old epoch in `broker_epoch`. With that epoch, the
    broker proves at its next start that it still has every record of its partitions. Raises
    ValueError if a record is damaged, or if there is no record of the cluster.
    """
    moved: list[Put] = []
    cluster: Put | None = None
    for entry in snapshot.entries:
        if entry.key.startswith(LEASED):
            continue
        value = entry.value
        if entry.key.startswith(records.REGISTRATIONS):
            registration = records.decode(RegistrationRecord, value)
            epoch = registration.broker_epoch or entry.mod_revision
            value = records.encode(msgspec.structs.replace(registration, broker_epoch=epoch))
        write = Put(entry.key, value)
        if entry.key == records.CLUSTER:
            cluster = write
        else:
            moved.append(write)
    if cluster is None:
        raise ValueError("there is no record of a cluster")
    return [*moved, cluster]
