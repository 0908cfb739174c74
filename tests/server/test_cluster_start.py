"""A broker with its metadata in another store: it founds a cluster only with a new directory, and a
start that is refused changes nothing on disk."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from oncelog_server.broker import Broker
from oncelog_server.broker_security import BrokerSecurity
from oncelog_server.cluster import records
from oncelog_server.cluster.store import (
    Compare,
    Delete,
    MetadataStore,
    Put,
    TxnResult,
    UnknownOutcome,
    WriteOperation,
)
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.config import Settings
from oncelog_server.data_directory.ownership import NeedsRecovery
from oncelog_server.environment import OsEnvironment
from oncelog_server.metadata.id_conflict import IdInUse
from oncelog_server.metadata.membership import Membership
from oncelog_server.metadata.store_wait import StoreSilent, StoreWait
from oncelog_server.network.binding import CannotListen
from oncelog_server.storage.layout import (
    CLEAN_SHUTDOWN,
    CLUSTER_REVISION,
    LOCK,
    META_PROPERTIES,
    METADATA_NAME,
)
from oncelog_server.topic_partition import TopicPartition
from tests.server.metadata.brokers import ManualClock, until
from tests.server.metadata.memory_store import MemoryStore


class Elsewhere(OsEnvironment):
    """An environment with a metadata store that outlives the broker."""

    def __init__(self, path: Path, store: MemoryStore) -> None:
        super().__init__(str(path))
        self.store = store

    async def open_store(self, settings: Settings) -> MetadataStore:
        return self.store


def store() -> MemoryStore:
    return MemoryStore(now_ms=ManualClock())


def settings_of(
    path: Path, node_id: int, port: int = 0, *, elsewhere: bool = True, timeout_ms: int = 0
) -> Settings:
    return Settings(
        node_id=node_id,
        log_dirs=(str(path),),
        listeners=(f"PLAINTEXT://127.0.0.1:{port}",),
        oncelog_etcd_endpoints=("http://127.0.0.1:1",) if elsewhere else (),
        initial_broker_registration_timeout_ms=timeout_ms,
    )


@asynccontextmanager
async def started(path: Path, found: MemoryStore, node_id: int = 1) -> AsyncIterator[Broker]:
    environment = Elsewhere(path, found)
    broker = Broker(settings_of(path, node_id), environment)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def content(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != LOCK)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


async def refused(path: Path, found: MemoryStore, node_id: int = 1) -> str:
    """Return the reason why the broker does not start."""
    environment = Elsewhere(path, found)
    before = content(path)
    broker = Broker(settings_of(path, node_id), environment)
    try:
        await broker.start()
    except ValueError as error:
        environment.close()
        assert content(path) == before
        return str(error)
    await broker.stop()
    pytest.fail("the broker has started")


async def test_a_broker_starts_stops_and_starts_again(tmp_path: Path) -> None:
    found = store()
    async with started(tmp_path, found) as broker:
        await broker.metadata.create_topics([NewTopic("t")])
        first = broker.metadata.membership.broker_epoch
    assert f'"brokerEpoch":{first}' in (tmp_path / ".kafka_cleanshutdown").read_text()
    # The stop has seen the end of the registration too.
    assert int((tmp_path / CLUSTER_REVISION).read_text()) >= first
    async with started(tmp_path, found) as broker:
        image = broker.metadata.image
        assert image.brokers[1].kept_epochs == (first,)
        assert image.registrations[1].clean_stop_epoch == first
        await until(lambda: broker.metadata.image.topics["t"].partitions[0].leader == 1)
        assert len(broker.partitions) == 1


async def test_b10_a_new_directory_names_the_partitions_that_start_empty(tmp_path: Path) -> None:
    """The broker has their only replicas, so it leads them at once. A partition with another
    replica is not among them."""
    found = store()
    event = "partitions start empty: the data directory is new, and has their only replica"
    async with started(tmp_path / "1", found) as broker, started(tmp_path / "2", found, 2):
        await broker.metadata.create_topics(
            [
                NewTopic("alone", assignments=((0, (1,)), (1, (2,)), (2, (1,)))),
                NewTopic("pair", assignments=((0, (1, 2)),)),
            ]
        )
    for directory, named in (("1", []), ("new", [["alone-0", "alone-2"]]), ("new", [])):
        with structlog.testing.capture_logs() as logged:
            async with started(tmp_path / directory, found) as broker:
                await until(lambda: broker.metadata.image.topics["alone"].partitions[0].leader == 1)
        logged = [entry for entry in logged if entry["event"] == event]
        assert [entry["partitions"] for entry in logged] == named


async def test_b10_a_change_during_the_start_does_not_hide_what_starts_empty(
    tmp_path: Path,
) -> None:
    """The new directory waits for the end of the old registration. At this end, the controller
    takes the leader from the partition, and the start sees this change before it registers."""
    found = store()
    async with started(tmp_path / "1", found) as old, started(tmp_path / "2", found, 2) as other:
        await old.metadata.create_topics([NewTopic("alone", assignments=((0, (1,)),))])
        new = Broker(
            settings_of(tmp_path / "new", 1, timeout_ms=600_000), Elsewhere(tmp_path / "new", found)
        )
        with structlog.testing.capture_logs() as logged:
            starting = asyncio.create_task(new.start())
            await until(lambda: any("in use" in event["event"] for event in logged))
            await old.metadata.membership.stop()
            await until(lambda: new.metadata.image.topics["alone"].partitions[0].leader == -1)
            await starting
        await until(lambda: other.metadata.image.topics["alone"].partitions[0].leader == 1)
        await new.stop()
    assert [entry["partitions"] for entry in logged if "start empty" in entry["event"]] == [
        ["alone-0"]
    ]


async def test_a_start_waits_for_a_store_that_does_not_respond(tmp_path: Path) -> None:
    found = store()
    found.is_cut_off = True
    environment = Elsewhere(tmp_path / "1", found)
    broker = Broker(settings_of(tmp_path / "1", 1, timeout_ms=60_000), environment)
    with structlog.testing.capture_logs() as logged:
        starting = asyncio.create_task(broker.start())
        await until(lambda: any("waits" in event["event"] for event in logged))
        found.is_cut_off = False
        await starting
    await broker.stop()
    found.is_cut_off = True
    environment = Elsewhere(tmp_path / "2", found)
    with pytest.raises(OSError, match="no response") as refused:
        await Broker(settings_of(tmp_path / "2", 2), environment).start()
    assert str(refused.value) == (
        "etcd at http://127.0.0.1:1 has not served this start within 0 ms "
        "(initial.broker.registration.timeout.ms): the broker awaited the metadata of the cluster. "
        "Last failure: metadata store: no response. Start etcd, or correct oncelog.etcd.endpoints"
    )
    environment.close()


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_start_without_a_registration_leaves_its_directory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """The store does not respond any more when the logs are open. An older directory used to lose
    its mark of a clean stop."""
    found = store()
    async with started(tmp_path / "2", found, 2) as second:
        await second.metadata.create_topics([NewTopic("t")])
    if not is_new:
        async with started(tmp_path / "1", found):
            pass
    before = content(tmp_path)
    environment = Elsewhere(tmp_path / "1", found)
    broker = Broker(settings_of(tmp_path / "1", 1), environment)

    async def falls_silent(wait: StoreWait) -> None:
        found.is_cut_off = True

    monkeypatch.setattr(BrokerSecurity, "create_first_users", lambda self, wait: falls_silent(wait))
    with pytest.raises(StoreSilent, match="awaited the registration of this broker"):
        await broker.start()
    environment.close()
    assert content(tmp_path) == before


async def test_a_start_with_a_registration_does_not_say_that_it_has_stopped_cleanly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response to the registration is lost. From then on, others could let this broker lead."""
    found = store()
    async with started(tmp_path, found):
        pass
    environment = Elsewhere(tmp_path, found)
    broker = Broker(settings_of(tmp_path, 1), environment)
    carry_out = found.txn

    async def loses_registration(
        compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        result = await carry_out(compare, operations)
        if operations[0].key == records.broker_key(1):
            found.is_cut_off = True
            raise UnknownOutcome("no response")
        return result

    monkeypatch.setattr(found, "txn", loses_registration)
    with pytest.raises(StoreSilent, match="awaited the registration of this broker"):
        await broker.start()
    monitor = broker.metadata.membership._exit_monitor
    assert monitor is not None
    await monitor.close()
    environment.close()
    assert CLEAN_SHUTDOWN not in content(tmp_path)
    assert broker.metadata.membership.may_be_registered


async def test_a_restarted_broker_leads_only_when_the_controller_has_confirmed_it(
    tmp_path: Path,
) -> None:
    """The partition's record still names the broker as the leader, whatever its disk has lost."""
    found = store()
    async with started(tmp_path, found) as broker:
        await broker.metadata.create_topics([NewTopic("t")])
    other = records.encode(records.ControllerRecord(9))
    await found.txn((), [Put(records.CONTROLLER, other)])
    async with started(tmp_path, found) as broker:
        old = broker.metadata.image.topics["t"].partitions[0]
        assert old.leader == 1
        key = records.partition_key(broker.metadata.image.topics["t"].id_text, 0)
        again = records.PartitionRecord((1,), (1,), 1, 1, isr_epochs=old.isr_epochs)
        await found.txn((), [Put(key, records.encode(again))])
        await until(lambda: broker.metadata.image.topics["t"].partitions[0].leader_epoch == 1)
        partition = broker.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        assert not partition.is_leader
        epochs = (broker.metadata.membership.broker_epoch,)
        confirmed = records.PartitionRecord((1,), (1,), 1, 2, isr_epochs=epochs)
        await found.txn((), [Put(key, records.encode(confirmed))])
        await until(lambda: partition.is_leader)
        assert partition.leader_epoch == 2


async def test_a_new_broker_joins_a_cluster_with_topics(tmp_path: Path) -> None:
    found = store()
    async with started(tmp_path / "1", found) as first:
        await first.metadata.create_topics([NewTopic("t", 3)])
        async with started(tmp_path / "2", found, 2) as second:
            assert set(second.metadata.image.brokers) == {1, 2}
            assert second.services.cluster_id == first.services.cluster_id


async def test_an_empty_store_never_takes_the_data_of_a_cluster_aside(tmp_path: Path) -> None:
    """First defect of section 1.3 of the cluster brief: an empty etcd, or a wrong prefix, got a new
    cluster with the id of the directory, and every partition was put aside."""
    async with started(tmp_path, store()) as broker:
        await broker.metadata.create_topics([NewTopic("t", 3)])
        cluster_id = broker.services.cluster_id
    empty = store()
    reason = await refused(tmp_path, empty)
    assert f"there is no metadata in etcd, and {tmp_path} belongs to cluster {cluster_id}" in reason
    assert "oncelog.etcd.prefix" in reason
    assert not empty.entries
    assert {f"t-{number}/partition.metadata" for number in range(3)} <= content(tmp_path).keys()


async def test_b18_a_topic_that_was_deleted_while_the_broker_was_down_is_put_aside(
    tmp_path: Path,
) -> None:
    """The other broker has deleted its folders of the topic, and the record of the deletion is
    gone."""
    found = store()
    async with started(tmp_path / "1", found) as first:
        async with started(tmp_path / "2", found, 2) as second:
            await second.metadata.create_topics([NewTopic("t", 2, 2), NewTopic("kept", 2, 2)])
            await until(lambda: len(second.partitions) == 4)
        await first.metadata.delete_topics(["t"])
        await until(lambda: not first.metadata.image.deletions)
        await first.metadata.create_topics([NewTopic("t", 1, 1)])
        async with started(tmp_path / "2", found, 2) as second:
            assert len(second.partitions) == 2
    names = {name.split("/")[0] for name in content(tmp_path / "2")}
    assert {name for name in names if name.startswith("kept-")} == {"kept-0", "kept-1"}
    assert len([name for name in names if name.endswith("-stray")]) == 2


async def test_a_restored_store_takes_no_unknown_folder_aside(tmp_path: Path) -> None:
    """A killed broker may have seen more than its directory says."""
    found = store()
    async with started(tmp_path, found) as broker:
        await broker.metadata.create_topics([NewTopic("t"), NewTopic("kept")])
        await until(lambda: len(broker.partitions) == 2)
        id_text = broker.metadata.image.topics["t"].id_text
    gone = [Delete(records.topic_key("t")), Delete(records.partition_key(id_text, 0))]
    restored = records.encode(records.RestoredRecord(10**6))
    await found.txn((), [*gone, Put(records.RESTORED, restored)])
    reason = await refused(tmp_path, found)
    assert "was restored, and does not contain t-0" in reason
    assert "cluster recover" in reason


async def test_the_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with started(tmp_path / "1", store()):
        pass
    other = store()
    async with started(tmp_path / "2", other):
        said = await refused(tmp_path / "1", other)
        assert "belongs to node 1 of cluster" in said
        assert said.endswith("Check oncelog.etcd.endpoints and oncelog.etcd.prefix")


async def test_b23_a_store_that_was_restored_from_an_old_copy_is_refused(tmp_path: Path) -> None:
    """Revisions go back, so conditions and epochs would meet old values again."""
    old = store()
    async with started(tmp_path, old) as broker:
        await broker.metadata.create_topics([NewTopic("t", 3)])
    copy = store()
    for key, entry in old.entries.items():
        if not key.startswith(records.LEASED):
            copy.entries[key] = entry
    copy.feed.revision = 2
    assert "is at revision 2, and" in await refused(tmp_path, copy)
    async with started(tmp_path, old):
        pass


async def test_b23_the_revision_of_the_last_change_counts_not_that_of_the_start(
    tmp_path: Path,
) -> None:
    """A copy of etcd from after the start may lack a topic. A broker on this copy would put the
    topic's folders aside."""
    old = store()
    async with started(tmp_path, old) as broker:
        copy, copied_at = dict(old.entries), old.feed.revision
        await broker.metadata.create_topics([NewTopic("t", 3)])
    older = store()
    older.entries.update(
        {key: entry for key, entry in copy.items() if not key.startswith(records.LEASED)}
    )
    older.feed.revision = copied_at
    assert f"is at revision {copied_at}, and" in await refused(tmp_path, older)


@pytest.mark.parametrize("included", [0, 1])
async def test_b23_restored_metadata_must_include_what_the_directory_has_seen(
    tmp_path: Path, included: int
) -> None:
    """The revisions of restored metadata are above those of the lost store, so they prove
    nothing."""
    found = store()
    async with started(tmp_path, found) as broker:
        await broker.metadata.create_topics([NewTopic("t", 3)])
    seen = int((tmp_path / CLUSTER_REVISION).read_text())
    found.feed.revision += 1000
    restored = records.encode(records.RestoredRecord(seen - 1 + included))
    at = (await found.txn((), [Put(records.RESTORED, restored)])).revision
    if not included:
        said = await refused(tmp_path, found)
        assert f"is at revision {seen - 1} that was restored, and" in said
        return
    async with started(tmp_path, found):
        pass
    revision, restored_at = map(int, (tmp_path / CLUSTER_REVISION).read_text().split(" "))
    assert revision > at == restored_at
    # From here on, the revisions of the restored store count.
    found.feed.revision = revision - 1
    assert f"is at revision {revision - 1} that was restored" in await refused(tmp_path, found)
    del found.entries[records.RESTORED]
    assert "is at revision 0, and" in await refused(tmp_path, found)


async def test_the_directory_of_a_cluster_is_not_started_alone(tmp_path: Path) -> None:
    """A broker that starts alone would begin with new and empty metadata in the directory."""
    async with started(tmp_path, store()):
        pass
    before = content(tmp_path)
    environment = OsEnvironment(str(tmp_path))
    try:
        with pytest.raises(ValueError, match=r"set oncelog\.etcd\.endpoints"):
            await Broker(settings_of(tmp_path, 1, elsewhere=False), environment).start()
    finally:
        environment.close()
    assert content(tmp_path) == before


async def test_a_directory_with_its_own_metadata_is_not_started_in_a_cluster(
    tmp_path: Path,
) -> None:
    environment = OsEnvironment(str(tmp_path))
    alone = Broker(settings_of(tmp_path, 1, elsewhere=False), environment)
    await alone.start()
    await alone.stop()
    assert "there is no metadata in etcd" in await refused(tmp_path, store())


async def test_a_refused_port_leaves_the_identity_of_the_directory(tmp_path: Path) -> None:
    found = store()
    async with started(tmp_path, found):
        pass
    before = (tmp_path / META_PROPERTIES).read_bytes()
    environment = Elsewhere(tmp_path, found)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotListen):
            await Broker(settings_of(tmp_path, 1, port), environment).start()
    environment.close()
    assert (tmp_path / META_PROPERTIES).read_bytes() == before
    async with started(tmp_path, found):
        pass


async def test_b22_a_broker_with_an_id_in_use_leaves_its_directory_as_it_was(
    tmp_path: Path,
) -> None:
    found = store()
    async with started(tmp_path / "old", found):
        pass
    mark = (tmp_path / "old" / CLEAN_SHUTDOWN).read_bytes()
    async with started(tmp_path / "first", found) as first:
        await first.metadata.create_topics([NewTopic("t", 3)])
        for name in ("new", "old"):
            environment = Elsewhere(tmp_path / name, found)
            with pytest.raises(IdInUse, match="id 1 is registered already"):
                await Broker(settings_of(tmp_path / name, 1), environment).start()
            environment.close()
    assert content(tmp_path / "new") == {}
    assert (tmp_path / "old" / CLEAN_SHUTDOWN).read_bytes() == mark


async def test_a_new_directory_stays_empty_while_another_broker_has_the_id(tmp_path: Path) -> None:
    """A kill during the wait leaves a directory that another broker can use. A folder would hide
    that the directory was empty."""
    found, new = store(), tmp_path / "new"
    async with started(tmp_path / "first", found) as first:
        await first.metadata.create_topics([NewTopic("t", 3)])
        environment = Elsewhere(new, found)
        waiting = Broker(settings_of(new, 1, timeout_ms=600_000), environment)
        with structlog.testing.capture_logs() as logged:
            start = asyncio.create_task(waiting.start())
            await until(lambda: any("in use" in event["event"] for event in logged))
        assert [path.name for path in new.iterdir()] == [LOCK]
        await first.metadata.create_topics([NewTopic("later")])
        await until(lambda: "later" in waiting.metadata.image.topics)
        assert [path.name for path in new.iterdir()] == [LOCK]
        start.cancel()
        await asyncio.wait([start])
        environment.close()
        assert [path.name for path in new.iterdir()] == [LOCK]
        async with started(new, found, 5):
            assert set(first.metadata.image.brokers) == {1, 5}


async def test_an_id_that_another_start_takes_at_the_same_time_leaves_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other broker registers after this start has found the id free."""
    found = store()
    async with started(tmp_path / "first", found) as first:
        await first.metadata.create_topics([NewTopic("t", 3)])
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "lost+found").mkdir()
        environment = Elsewhere(tmp_path / "new", found)
        broker = Broker(settings_of(tmp_path / "new", 1), environment)

        async def finds_it_free(member: Membership, wait: StoreWait) -> None: ...

        monkeypatch.setattr(Membership, "await_free_id", finds_it_free)
        with pytest.raises(IdInUse):
            await broker.start()
        environment.close()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lost+found"]


async def test_the_directory_of_another_broker_is_refused_with_a_way_out(tmp_path: Path) -> None:
    found = store()
    async with started(tmp_path, found):
        pass
    text = await refused(tmp_path, found, 5)
    assert "belongs to node 1 of cluster" in text
    assert "not to node 5" in text
    assert "a data directory of its own (log.dirs or --data), or set node.id=1" in text


async def test_a_damaged_revision_of_the_cluster_is_named(tmp_path: Path) -> None:
    found = store()
    async with started(tmp_path, found):
        pass
    (tmp_path / CLUSTER_REVISION).write_text("x")
    assert f"{CLUSTER_REVISION} is damaged" in await refused(tmp_path, found)


async def test_a_directory_that_has_lost_its_own_metadata_still_needs_recovery(
    tmp_path: Path,
) -> None:
    environment = OsEnvironment(str(tmp_path))
    alone = Broker(settings_of(tmp_path, 1, elsewhere=False), environment)
    await alone.start()
    await alone.stop()
    for name in content(tmp_path):
        if name.startswith(METADATA_NAME):
            (tmp_path / name).unlink()
    environment = OsEnvironment(str(tmp_path))
    try:
        with pytest.raises(NeedsRecovery):
            await Broker(settings_of(tmp_path, 1, elsewhere=False), environment).start()
    finally:
        environment.close()
