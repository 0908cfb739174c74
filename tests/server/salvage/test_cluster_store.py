"""A restoration that is interrupted leaves no cluster, and can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import (
    BrokerRecord,
    ClusterRecord,
    RestoredRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Compare,
    Entry,
    Put,
    Snapshot,
    TxnResult,
    WriteOperation,
)
from oncelog_server.metadata.founding import found_cluster
from oncelog_server.salvage.cluster_commands import survey_
from oncelog_server.salvage.cluster_store import FROM_ETCD, FROM_FILE, read, restore
from oncelog_server.salvage.exports import read_export, write_export
from oncelog_server.salvage.planning.known import Uncertain
from oncelog_server.salvage.planning.restoration import Restoration
from tests.server.metadata.memory_store import MemoryStore

TOPICS = 2 * MAX_OPERATIONS
FLOOR = 40


class Failing(MemoryStore):
    """A store that fails after some transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 1000

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        if not self.left:
            raise OSError("etcd does not respond")
        self.left -= 1
        return await super().txn(compare, operations)


def plan(floor: int = FLOOR) -> Restoration:
    ids = (uuid_to_string(number.to_bytes(16, "big")) for number in range(TOPICS))
    writes = tuple(
        Put(records.topic_key(f"t{number:03}"), records.encode(TopicRecord(topic_id, 1)))
        for number, topic_id in enumerate(ids)
    )
    return Restoration(ClusterRecord("c", absolute_hash=True), writes, 33, floor, ())


async def holding_a_cluster() -> Failing:
    """Return a store with an older copy of the cluster."""
    store = Failing()
    cluster = records.encode(ClusterRecord("c", absolute_hash=True))
    await store.txn((), [Put(records.CLUSTER, cluster), Put("topics/old", b"{}")])
    return store


@pytest.mark.parametrize("source", [FROM_FILE, FROM_ETCD])
@pytest.mark.parametrize("done", [0, 1, 2, FLOOR, FLOOR + 2, FLOOR + 3])
async def test_an_interrupted_restoration_can_be_repeated(done: int, source: str) -> None:
    store = await holding_a_cluster() if source == FROM_ETCD else Failing()
    store.left = done
    with pytest.raises(OSError, match="respond"):
        await restore(store, await read(store), plan(), source)
    store.left = 1000
    if done:
        assert records.CLUSTER not in store.entries
        await found_cluster(store, "another")
        assert records.CLUSTER not in store.entries
        known = (await read(store)).known()
        if source == FROM_ETCD:
            assert known is not None
            assert not known.is_last
            cluster = next(e for e in known.snapshot.entries if e.key == records.CLUSTER)
            record = records.decode(ClusterRecord, cluster.value)
            assert record == ClusterRecord("c", absolute_hash=True)
        else:
            assert known is None
    await restore(store, await read(store), plan(), source)
    image = ClusterImage.of(await store.range(""))
    assert (image.cluster_id, image.absolute_hash, image.restored_revision) == ("c", True, 33)
    assert min(entry.mod_revision for entry in store.entries.values()) > FLOOR
    assert store.entries.keys() == {
        records.CLUSTER,
        records.RESTORED,
        *(write.key for write in plan().writes),
    }


async def test_a_cluster_with_brokers_is_not_touched() -> None:
    store = await holding_a_cluster()
    value = records.encode(BrokerRecord("i", (records.EndpointRecord("P", "host", 9092),)))
    await store.txn((), [Put(records.broker_key(2), value)])
    with pytest.raises(Uncertain, match="broker 2 at host:9092 is registered"):
        await read(store)


async def test_a_broker_that_starts_during_the_survey_is_not_overlooked() -> None:
    store = await holding_a_cluster()
    present = await read(store)
    value = records.encode(BrokerRecord("i", (records.EndpointRecord("P", "host", 9092),)))
    await store.txn((), [Put(records.broker_key(2), value)])
    before = dict(store.entries)
    with pytest.raises(Uncertain, match="broker 2 at host:9092 is registered"):
        await restore(store, present, plan(), FROM_ETCD)
    assert store.entries == before


class Racing(MemoryStore):
    """A store in which a broker registers together with the second transaction."""

    transactions = 0

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        self.transactions += 1
        result = await super().txn(compare, operations)
        if self.transactions == 2:
            value = records.encode(BrokerRecord("i", (records.EndpointRecord("P", "h", 9092),)))
            await super().txn((), [Put(records.broker_key(2), value)])
        return result


async def test_a_broker_that_starts_at_the_last_moment_is_not_overlooked() -> None:
    store = Racing()
    cluster = records.encode(ClusterRecord("c"))
    await store.txn((), [Put(records.CLUSTER, cluster), Put("topics/old", b"{}")])
    with pytest.raises(Uncertain, match="broker 2 at h:9092 is registered"):
        await restore(store, await read(store), plan(), FROM_ETCD)
    assert "topics/old" in store.entries


async def test_a_change_of_a_broker_that_has_stopped_again_is_not_lost() -> None:
    store = await holding_a_cluster()
    present = await read(store)
    await store.txn((), [Put("topics/new", b"{}")])
    with pytest.raises(Uncertain, match="changed meanwhile"):
        await restore(store, present, plan(), FROM_ETCD)
    assert records.CLUSTER in store.entries


async def test_an_import_does_not_delete_the_only_metadata() -> None:
    store = Failing()
    (await read(store)).check_import()
    store = await holding_a_cluster()
    with pytest.raises(Uncertain, match="etcd has a cluster"):
        (await read(store)).check_import()
    store.left = 1
    with pytest.raises(OSError, match="respond"):
        await restore(store, await read(store), plan(), FROM_ETCD)
    with pytest.raises(Uncertain, match="from the metadata in etcd was interrupted"):
        (await read(store)).check_import()


def test_a_survey_does_not_replace_a_file(tmp_path: Path) -> None:
    file = tmp_path / "1.survey"
    file.write_text("other")
    result = CliRunner().invoke(survey_, [str(tmp_path), str(file)])
    assert result.exit_code == 1
    assert "give the survey a new name" in result.output
    assert file.read_text() == "other"


async def test_keys_of_something_else_are_not_touched() -> None:
    store = MemoryStore()
    await store.txn((), [Put("something", b"")])
    with pytest.raises(Uncertain, match="something"):
        await read(store)


async def test_a_cluster_that_appears_meanwhile_is_not_overwritten() -> None:
    store = MemoryStore()
    present = await read(store)
    await found_cluster(store, "other")
    before = dict(store.entries)
    with pytest.raises(Uncertain, match="changed meanwhile"):
        await restore(store, present, plan(), FROM_FILE)
    assert store.entries == before


def test_an_export_has_all_lasting_records_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "export"
    cluster = Entry(records.CLUSTER, b'{"id":"c"}', 1, 1)
    rows = (
        Entry("brokers/1", b"{}", 1, 1),
        cluster,
        Entry("controller", b"{}", 1, 1),
        Entry(records.RESTORED, records.encode(RestoredRecord(1)), 1, 1),
    )
    assert write_export(file, Snapshot(7, rows)) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_export(file).snapshot == Snapshot(7, (cluster,))
    with pytest.raises(FileExistsError, match="new name"):
        write_export(file, Snapshot(7, rows))


@pytest.mark.parametrize("at", range(0, 60, 3))
def test_a_damaged_export_is_refused(tmp_path: Path, at: int) -> None:
    file = tmp_path / "export"
    write_export(file, Snapshot(7, (Entry(records.CLUSTER, b'{"id":"c"}', 1, 1),)))
    whole = file.read_bytes()
    for damaged in (whole[:at], whole[:at] + b"#" + whole[at + 1 :], whole + whole[at:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=str(file)):
            read_export(file)
