"""The records of a single broker move to etcd whole, or there is no cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    BrokerRecord,
    ClusterRecord,
    RegistrationRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Compare,
    Delete,
    Entry,
    Put,
    Snapshot,
    TxnResult,
    WriteOperation,
)
from oncelog_server.migration.planning.etcd_records import moved_records
from oncelog_server.migration.to_etcd import NotEmpty, completed_move, move, moved
from tests.server.metadata.memory_store import MemoryStore

TOPICS = 3 * MAX_OPERATIONS


def snapshot(registered_at: int = 41, broker_epoch: int = 0) -> Snapshot:
    registration = RegistrationRecord("directory", broker_epoch, clean_stop_epoch=17)
    topic = records.encode(TopicRecord("id", 1))
    rows = [
        (records.broker_key(1), records.encode(BrokerRecord("incarnation", ())), 41),
        (records.CLUSTER, records.encode(ClusterRecord("c")), 1),
        (records.CONTROLLER, b'{"broker_id":1}', 41),
        (records.registration_key(1), records.encode(registration), registered_at),
        *((records.topic_key(f"t{number:03}"), topic, 50) for number in range(TOPICS)),
    ]
    return Snapshot(90, tuple(Entry(key, value, at, at) for key, value, at in sorted(rows)))


def keys(store: MemoryStore) -> set[str]:
    return set(store.entries)


def test_leased_records_stay_and_the_cluster_comes_last() -> None:
    moved = moved_records(snapshot())
    assert {write.key for write in moved} == {
        records.CLUSTER,
        records.registration_key(1),
        *(records.topic_key(f"t{number:03}") for number in range(TOPICS)),
    }
    assert moved[-1].key == records.CLUSTER
    assert not any(write.lease_id for write in moved)


@pytest.mark.parametrize(("own", "expected"), [(0, 41), (17, 17)])
def test_a_registration_keeps_the_broker_epoch_that_its_revision_was(
    own: int, expected: int
) -> None:
    moved = {write.key: write.value for write in moved_records(snapshot(41, own))}
    found = records.decode(RegistrationRecord, moved[records.registration_key(1)])
    assert (found.broker_epoch, found.clean_stop_epoch) == (expected, 17)


def test_records_without_a_cluster_are_refused() -> None:
    whole = snapshot()
    without = tuple(entry for entry in whole.entries if entry.key != records.CLUSTER)
    with pytest.raises(ValueError, match="no record of a cluster"):
        moved_records(Snapshot(90, without))


class Failing(MemoryStore):
    """A store that fails after some transactions."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        if not self.left:
            raise OSError("etcd does not respond")
        self.left -= 1
        return await super().txn(compare, operations)


@pytest.mark.parametrize("done", range(5))
async def test_an_interrupted_move_leaves_no_cluster_and_can_be_repeated(done: int) -> None:
    store = Failing(done)
    writes = moved_records(snapshot())
    with pytest.raises(OSError, match="respond"):
        await move(store, writes)
    assert records.CLUSTER not in store.entries
    store.left = 100
    assert await completed_move(store, writes) is None
    assert await move(store, writes) == store.feed.revision
    assert keys(store) == {write.key for write in writes}


async def test_a_move_that_was_interrupted_after_its_last_write_is_complete() -> None:
    """The process died before it marked the data directory."""
    store = MemoryStore()
    writes = moved_records(snapshot())
    revision = await move(store, writes)
    await store.txn((), [Put(records.CONTROLLER, b"leased")])
    assert await completed_move(store, writes) == revision
    assert await moved(store, writes) == revision


@pytest.mark.parametrize("change", ["value", "another key", "missing key"])
async def test_a_cluster_with_other_records_is_no_completed_move(change: str) -> None:
    store = MemoryStore()
    writes = moved_records(snapshot())
    await move(store, writes)
    key = records.topic_key("t001")
    operations: dict[str, WriteOperation] = {
        "value": Put(key, b"{}"),
        "another key": Put(records.topic_key("new"), b"{}"),
        "missing key": Delete(key),
    }
    await store.txn((), [operations[change]])
    with pytest.raises(NotEmpty, match="a cluster has this prefix"):
        await completed_move(store, writes)


async def test_a_prefix_with_other_keys_is_refused() -> None:
    store = MemoryStore()
    writes = moved_records(snapshot())
    await store.txn((), [Put("something", b"")])
    with pytest.raises(NotEmpty, match="something"):
        await completed_move(store, writes)


async def test_a_cluster_that_appears_meanwhile_is_not_overwritten() -> None:
    store = MemoryStore()
    writes = moved_records(snapshot())
    await completed_move(store, writes)
    await store.txn((), [Put(records.CLUSTER, b'{"id":"other"}')])
    with pytest.raises(NotEmpty, match="cluster"):
        await move(store, writes)
    assert keys(store) == {records.CLUSTER}
    with pytest.raises(NotEmpty, match="cluster"):
        await completed_move(store, writes)
