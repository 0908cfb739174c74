"""Reads and writes the metadata of a cluster without brokers, in etcd.

A restoration may be interrupted after any transaction. Until its last one there is no record of the
cluster, so no broker starts or founds another cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.members import broker_image
from oncelog_server.cluster.records import ClusterRecord, RestoredRecord
from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Created,
    Delete,
    Entry,
    MetadataStore,
    Put,
    Snapshot,
    WriteOperation,
    Written,
)
from oncelog_server.salvage.planning.known import Known, Uncertain
from oncelog_server.salvage.planning.restoration import Restoration

FROM_ETCD: Final = "etcd"
FROM_FILE: Final = "file"
FROM_DIRECTORIES: Final = "directories"
# Number of writes in flight while the revision is raised. The store keeps so many connections.
_IN_FLIGHT: Final = 4


class Present(msgspec.Struct, frozen=True):
    """The keys of a prefix. `cluster` is None if they have no cluster, `restored` is None without a
    restoration."""

    snapshot: Snapshot
    cluster: Entry | None
    restored: RestoredRecord | None

    @property
    def is_interrupted(self) -> bool:
        """Return True if a restoration has begun and not ended."""
        return self.cluster is None and self.restored is not None

    def known(self) -> Known | None:
        """Return the metadata as a source of a recovery, None if the keys have no metadata."""
        if self.cluster is not None:
            return Known(self.snapshot, is_last=True, source="the metadata in etcd")
        restored = self.restored
        if restored is None or restored.source != FROM_ETCD:
            return None
        value = records.encode(ClusterRecord(restored.cluster_id, restored.absolute_hash))
        entries = (Entry(records.CLUSTER, value, 0, 0), *self.snapshot.entries)
        snapshot = Snapshot(restored.revision, entries)
        return Known(snapshot, is_last=False, source="the metadata in etcd")

    def check_import(self) -> None:
        """Raise Uncertain if an import would delete metadata that nothing else has."""
        if self.cluster is not None:
            raise Uncertain("etcd has a cluster: an import does not replace it")
        if self.known() is not None:
            raise Uncertain(
                "a recovery from the metadata in etcd was interrupted, and an import would delete "
                "this metadata: run `oncelog cluster recover` again, with --from for the export"
            )


async def read(store: MetadataStore) -> Present:
    """Return the keys. Raises OSError. Raises Uncertain if a broker is registered, or if the keys
    are those of something else."""
    snapshot = await store.range("")
    by_key = {entry.key: entry for entry in snapshot.entries}
    _check_no_brokers(snapshot)
    restored = by_key.get(records.RESTORED)
    record = None if restored is None else records.decode(RestoredRecord, restored.value)
    present = Present(snapshot, by_key.get(records.CLUSTER), record)
    if by_key and present.cluster is None and record is None:
        raise Uncertain(f"etcd has no cluster, but other keys, such as {min(by_key)}")
    return present


def _check_no_brokers(snapshot: Snapshot) -> None:
    for entry in snapshot.entries:
        key = entry.key
        if key.startswith(records.BROKERS):
            broker = broker_image(int(key.removeprefix(records.BROKERS)), entry)
            address = broker.endpoints[0] if broker.endpoints else None
            at = f" at {address.host}:{address.port}" if address else ""
            raise Uncertain(
                f"broker {broker.id}{at} is registered in etcd: stop all brokers. The registration "
                "of a broker that was killed ends after broker.session.timeout.ms"
            )


async def restore(
    store: MetadataStore,
    present: Present,
    plan: Restoration,
    source: str,
    progress: Callable[[int, int], None] = lambda revision, floor: None,
) -> int:
    """Replace the keys `present` by those of the plan. Return the revision of the last write.

    `progress` gets the present revision of etcd and the one to reach. Raises OSError, and Uncertain
    if others write the keys meanwhile; the restoration can then be repeated.
    """
    writing = _Writing(store, present, source)
    await writing.check_unchanged()
    await writing.begin()
    # A broker may have started just before the record of the cluster was removed.
    await writing.check_unchanged()
    await writing.raise_revision(plan.floor, progress)
    planned = {write.key for write in plan.writes}
    kept = planned | {records.RESTORED, records.CLUSTER}
    extra = [Delete(entry.key) for entry in present.snapshot.entries if entry.key not in kept]
    operations: tuple[WriteOperation, ...] = (*extra, *plan.writes)
    for at in range(0, len(operations), MAX_OPERATIONS):
        await writing.write(operations[at : at + MAX_OPERATIONS])
    complete = RestoredRecord(plan.revision)
    return await writing.write(
        [
            Put(records.CLUSTER, records.encode(plan.cluster)),
            Put(records.RESTORED, records.encode(complete)),
        ]
    )


class _Writing:
    def __init__(self, store: MetadataStore, present: Present, source: str) -> None:
        self._store = store
        self._present = present
        record = RestoredRecord(0, source)
        known = present.known()
        if source == FROM_ETCD and known is not None:
            by_key = {entry.key: entry.value for entry in known.snapshot.entries}
            cluster = records.decode(ClusterRecord, by_key[records.CLUSTER])
            revision = known.snapshot.revision
            record = RestoredRecord(revision, source, cluster.id, cluster.absolute_hash)
        self._mark = Put(records.RESTORED, records.encode(record))

    async def check_unchanged(self) -> None:
        """Raise Uncertain if a broker is registered, or if a broker or a command has changed the
        keys since they were read."""
        now = await self._store.range("")
        _check_no_brokers(now)
        if self._lasting(now) != self._lasting(self._present.snapshot):
            raise Uncertain("the metadata in etcd has changed meanwhile: run the command again")

    @staticmethod
    def _lasting(snapshot: Snapshot) -> list[Entry]:
        """Return the entries that only a broker or another command changes."""
        marks = (records.CLUSTER, records.RESTORED)
        return [
            entry
            for entry in snapshot.entries
            if entry.key not in marks and not entry.key.startswith(records.LEASED)
        ]

    async def begin(self) -> None:
        """Remove the record of the cluster, so that no broker starts."""
        entry = self._present.cluster
        operations: list[WriteOperation] = [self._mark]
        if entry is not None:
            operations.append(Delete(records.CLUSTER))
        before = Written(records.CLUSTER, 0 if entry is None else entry.mod_revision)
        result = await self._store.txn([before], operations)
        if not result.succeeded:
            raise Uncertain("the metadata in etcd has changed meanwhile: run the command again")

    async def raise_revision(self, floor: int, progress: Callable[[int, int], None]) -> None:
        """Write one key until etcd's revision is above `floor`. Revisions are the epochs of
        brokers, so an old one must not be used again."""
        newest = 0

        async def write_on() -> None:
            nonlocal newest
            while newest <= floor:
                newest = max(newest, await self.write([self._mark]))
                progress(newest, floor)

        await asyncio.gather(*(write_on() for _ in range(_IN_FLIGHT)))

    async def write(self, operations: Sequence[WriteOperation]) -> int:
        result = await self._store.txn([Created(records.CLUSTER, 0)], operations)
        if not result.succeeded:
            raise Uncertain("another command has written the cluster meanwhile")
        return result.revision
