"""A broker stays registered as long as it can renew its lease, and registers again after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import structlog

from oncelog_server.cluster import records
from oncelog_server.cluster.store import (
    Compare,
    Entry,
    LostMetadata,
    Put,
    TxnResult,
    UnknownOutcome,
    WriteOperation,
)
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata import membership
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.membership import DirectoryFacts
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.server.metadata.brokers import (
    DEADLINE_S,
    SESSION_MS,
    Brokers,
    endpoints,
    facts,
    until,
)
from tests.server.metadata.memory_store import MemoryStore


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    brokers = Brokers()
    yield brokers
    await brokers.stop()


async def test_defect_a_brokers_that_start_at_the_same_moment_all_register(
    brokers: Brokers,
) -> None:
    """Defect A of the cluster brief: the controller's key was in the registration, so two of three
    brokers were refused because of their ids."""
    started = await asyncio.gather(*(brokers.start(number) for number in (1, 2, 3)))
    await until(lambda: all(set(found.image.brokers) == {1, 2, 3} for found in started))
    assert {found.image.controller_id for found in started} <= {1, 2, 3}
    assert len({found.image.controller_epoch for found in started}) == 1


async def test_a_registration_names_directory_lease_and_boot(brokers: Brokers) -> None:
    metadata = await brokers.start(5, facts(5, "directory", "boot"))
    broker = metadata.image.brokers[5]
    assert (broker.directory_id, broker.boot_id) == ("directory", "boot")
    assert broker.lease_id == metadata.membership.lease_id
    assert broker.epoch == metadata.membership.broker_epoch
    assert metadata.image.registrations[5].epoch == broker.epoch


async def test_keepalives_keep_the_registration(brokers: Brokers) -> None:
    metadata = await brokers.start(1)
    epoch = metadata.membership.broker_epoch
    authority = metadata.membership.authority
    for _ in range(5):
        brokers.clock.ms += SESSION_MS // 2
        await until(lambda: authority.valid(brokers.clock.ms + SESSION_MS // 2))
    brokers.store.end_leases()
    assert metadata.membership.broker_epoch == epoch
    assert metadata.image.brokers[1].epoch == epoch


async def test_b12_after_a_failed_keepalive_the_next_one_leaves_at_once(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of etcd that does not respond has taken a second of the lease."""
    monkeypatch.setattr(membership, "RETRY_S", 2 * DEADLINE_S)
    metadata = await brokers.start(1)
    lease = metadata.membership._lease
    assert lease is not None
    keep_alive = lease.keep_alive
    calls = 0

    async def fails_once() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("no response")
        return await keep_alive()

    monkeypatch.setattr(lease, "keep_alive", fails_once)
    await until(lambda: calls > 1)


async def test_b11_without_a_keepalive_the_authority_ends_before_the_lease(
    brokers: Brokers,
) -> None:
    metadata = await brokers.start(1)
    authority = metadata.membership.authority
    assert authority.valid(brokers.clock.ms)
    brokers.store.is_cut_off = True
    brokers.clock.ms += SESSION_MS - 250
    assert not authority.valid(brokers.clock.ms)
    brokers.store.end_leases()
    assert records.broker_key(1) in brokers.store.entries


async def test_a_broker_knows_for_how_long_its_store_has_not_responded(brokers: Brokers) -> None:
    """The broker serves for the rest of its session."""
    member = (await brokers.start(1)).membership
    assert (member.store_silence_ms, member.is_valid) == (0, True)
    brokers.store.is_cut_off = True
    await until(lambda: member.store_silence_ms > 0)
    brokers.clock.ms += SESSION_MS // 3
    assert SESSION_MS // 3 <= member.store_silence_ms < SESSION_MS
    assert member.is_valid
    brokers.clock.ms += SESSION_MS
    assert not member.is_valid
    brokers.store.is_cut_off = False
    await until(lambda: member.is_valid)
    await until(lambda: member.store_silence_ms == 0)


async def test_a_store_that_refuses_the_registration_has_responded(brokers: Brokers) -> None:
    member = (await brokers.start(1)).membership
    brokers.store.end_all_leases()
    other = brokers.make(1)
    await other.start(endpoints(1), directory=facts(1, "another"))
    await asyncio.sleep(0)
    await until(lambda: not member.is_valid)
    assert member.store_silence_ms == 0


async def test_defect_d_a_broker_with_an_ended_lease_registers_again(brokers: Brokers) -> None:
    """Defect D of the cluster brief: the broker left its own image, and nothing noticed."""
    metadata = await brokers.start(1)
    await metadata.create_topics([NewTopic("t", 3, 1)])
    epoch = metadata.membership.broker_epoch
    await brokers.store.revoke_lease(metadata.membership.lease_id)
    await until(lambda: metadata.membership.broker_epoch > epoch)
    await until(lambda: metadata.image.controller_id == 1)
    assert metadata.membership.authority.valid(brokers.clock.ms)
    assert metadata.image.brokers[1].kept_epochs == (epoch,)
    await until(
        lambda: (
            {(found.leader, found.isr_epochs) for found in metadata.image.topics["t"].partitions}
            == {(1, (metadata.membership.broker_epoch,))}
        )
    )
    assert min(found.leader_epoch for found in metadata.image.topics["t"].partitions) >= 1


class NotedLeases:
    """An exit monitor that notes its leases, and the registration at that time."""

    def __init__(self, epoch: Callable[[], int]) -> None:
        self.kept: list[tuple[int, int]] = []
        self._epoch = epoch

        self.is_closed = False

    def start(self) -> None: ...

    def keep(self, lease_id: int) -> None:
        self.kept.append((lease_id, self._epoch()))

    def registered(self) -> None: ...

    async def close(self) -> None:
        self.is_closed = True


async def test_the_exit_monitor_has_each_lease_before_the_registration(brokers: Brokers) -> None:
    """A broker that dies right after it has registered again is monitored too."""
    metadata = await brokers.start(1)
    membership = metadata.membership
    first, epoch = membership.lease_id, membership.broker_epoch
    monitor = membership._exit_monitor = NotedLeases(lambda: membership.epoch_in(metadata.image))
    await brokers.store.revoke_lease(first)
    await until(lambda: membership.broker_epoch > epoch)
    assert membership.lease_id != first
    assert monitor.kept[-1] == (membership.lease_id, 0)


@pytest.mark.parametrize("store_fails", [False, True])
async def test_the_exit_monitor_remains_until_the_registration_has_ended(
    brokers: Brokers, store_fails: bool
) -> None:
    """The monitor ends the registration that a stop without etcd could not end."""
    membership = (await brokers.start(1)).membership
    monitor = membership._exit_monitor = NotedLeases(lambda: 0)
    brokers.store.is_cut_off = store_fails
    if store_fails:
        with pytest.raises(OSError, match="no response"):
            await membership.stop()
    else:
        await membership.stop()
    assert monitor.is_closed is not store_fails


class Defect(Exception):
    pass


def raise_once(monkeypatch: pytest.MonkeyPatch, target: object, name: str) -> list[Defect]:
    """Let the next call of a method raise Defect. Return the list that gets the raised
    exception."""
    raised: list[Defect] = []
    method = getattr(target, name)

    def call(*args: Any) -> Any:
        if not raised:
            raised.append(Defect())
            raise raised[0]
        return method(*args)

    monkeypatch.setattr(target, name, call)
    return raised


def renewal(member: membership.Membership) -> tuple[object, str]:
    return member.authority, "renew"


def change(member: membership.Membership) -> tuple[object, str]:
    return member.authority, "on_change"


def note(member: membership.Membership) -> tuple[object, str]:
    member._exit_monitor = NotedLeases(lambda: 0)
    return member._exit_monitor, "keep"


@pytest.mark.parametrize("part", [renewal, change, note])
async def test_a_defect_ends_no_renewals(
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
    part: Callable[[membership.Membership], tuple[object, str]],
) -> None:
    member = (await brokers.start(1)).membership
    target, name = part(member)
    with structlog.testing.capture_logs() as logged:
        raised = raise_once(monkeypatch, target, name)
        if name == "keep":
            await brokers.store.revoke_lease(member.lease_id)
        await until(lambda: bool(raised))
        brokers.clock.ms += SESSION_MS // 2
        await until(lambda: member.authority.valid(brokers.clock.ms + SESSION_MS // 2))
    assert records.broker_key(1) in brokers.store.entries
    (event,) = (event for event in logged if event.get("exc_info"))
    assert event["event"] == "the registration could not be renewed"


async def test_the_authority_begins_again_when_the_image_has_the_new_registration(
    brokers: Brokers,
) -> None:
    """Before that, the image may name leaders that have been replaced meanwhile."""
    metadata = await brokers.start(1)
    membership = metadata.membership
    epoch = membership.broker_epoch
    begun_at: list[int] = []

    def changed() -> None:
        if membership.authority.valid(brokers.clock.ms):
            begun_at.append(metadata.image.revision)

    membership.authority.on_change = changed
    await brokers.store.revoke_lease(metadata.membership.lease_id)
    await until(lambda: bool(begun_at))
    assert membership.broker_epoch > epoch
    assert min(begun_at) >= membership.broker_epoch


def emptied(store: MemoryStore) -> None:
    store.entries.clear()


def another_cluster(store: MemoryStore) -> None:
    emptied(store)
    value = records.encode(records.ClusterRecord("another"))
    store.entries[records.CLUSTER] = Entry(records.CLUSTER, value, 1, 1)


def restored(store: MemoryStore) -> None:
    value = records.encode(records.RestoredRecord(3))
    store.entries[records.RESTORED] = Entry(records.RESTORED, value, 9, 9)


@pytest.mark.parametrize("lose", [emptied, another_cluster, restored])
async def test_b23_a_broker_does_not_register_in_a_store_that_lost_its_metadata(
    brokers: Brokers, lose: Callable[[MemoryStore], None]
) -> None:
    """The broker has the image of the lost store. With a registration, it would lead partitions
    that the store does not have."""
    metadata = await brokers.start(1)
    with structlog.testing.capture_logs() as logged:
        lose(brokers.store)
        await brokers.store.revoke_lease(metadata.membership.lease_id)
        await until(lambda: any("is lost" in event["event"] for event in logged))
    assert not metadata.membership.is_valid
    assert records.broker_key(1) not in brokers.store.entries
    (event,) = (event for event in logged if "is lost" in event["event"])
    assert "oncelog cluster recover" in event["reason"]
    assert metadata.membership.store_silence_ms > 0


async def test_b23_a_broker_that_sees_a_restoration_serves_nothing(brokers: Brokers) -> None:
    metadata = await brokers.start(1)
    value = records.encode(records.RestoredRecord(3))
    await brokers.store.txn((), [Put(records.RESTORED, value)])
    await until(lambda: not metadata.membership.is_valid)
    assert isinstance(metadata.follower.failure, LostMetadata)


async def break_watch(brokers: Brokers) -> None:
    """Write a record that no broker of this version can decode."""
    await brokers.store.txn((), [Put(records.topic_key("t"), b"not JSON")])


async def test_a_broker_that_follows_the_metadata_no_more_lets_others_lead(
    brokers: Brokers,
) -> None:
    """Otherwise it would renew its lease, acknowledge acks=1 and serve old reads forever."""
    metadata = await brokers.start(1)
    with structlog.testing.capture_logs() as logged:
        await break_watch(brokers)
        await until(lambda: records.broker_key(1) not in brokers.store.entries)
    member = metadata.membership
    assert not member.is_valid
    assert isinstance(metadata.follower.failure, ValueError)
    assert member.store_silence_ms == 0, "etcd responds"
    assert not member.epoch_in(metadata.image), "it is no controller, and in no ISR"
    followed, left = (event for event in logged if "restart it" in event["event"])
    assert followed["exc_info"] is metadata.follower.failure
    assert "leaves the cluster" in left["event"]
    assert str(metadata.follower.failure) == left["reason"]
    assert member._keeping is not None
    await until(member._keeping.done)
    assert records.broker_key(1) not in brokers.store.entries, "it has not registered again"


async def test_a_broker_that_leaves_without_its_store_renews_nothing(brokers: Brokers) -> None:
    """Its lease ends by itself."""
    metadata = await brokers.start(1)
    await break_watch(brokers)
    brokers.store.is_cut_off = True
    await until(lambda: not metadata.membership.is_valid)
    brokers.store.is_cut_off = False
    brokers.clock.ms += SESSION_MS
    brokers.store.end_leases()
    assert records.broker_key(1) not in brokers.store.entries


async def test_a_single_broker_serves_on_if_it_follows_its_metadata_no_more() -> None:
    """No other broker can lead, so an end of its authority would only do harm."""
    store = MemoryStore()
    metadata = ClusterMetadata(store, Settings())
    await metadata.start(endpoints(1))
    await store.txn((), [Put(records.topic_key("t"), b"not JSON")])
    await until(lambda: metadata.follower.failure is not None)
    (outcome,) = await metadata.create_topics([NewTopic("t", 3)])
    assert isinstance(outcome, Refused)
    assert metadata.membership.is_valid
    assert records.broker_key(1) in store.entries
    await metadata.stop()


async def test_b11_a_broker_that_was_away_for_a_session_is_fenced_and_comes_back(
    brokers: Brokers,
) -> None:
    first = await brokers.start(1)
    second = await brokers.start(2)
    epoch = second.membership.broker_epoch
    brokers.store.is_cut_off = True
    brokers.clock.ms += SESSION_MS
    brokers.store.end_leases()
    await until(lambda: not second.image.brokers)
    assert set(second.image.fenced) == {1, 2}
    brokers.store.is_cut_off = False
    await until(lambda: set(first.image.brokers) == {1, 2})
    assert first.image.brokers[2].epoch > epoch
    assert first.image.brokers[2].kept_epochs == (epoch,)


async def test_an_earlier_process_with_the_same_directory_is_fenced_at_once(
    brokers: Brokers,
) -> None:
    """The lock on the directory proves that the earlier process is dead."""
    other = await brokers.start(2)
    killed = await brokers.start(1)
    brokers.kill(killed)
    again = await brokers.start(1)
    assert again.membership.broker_epoch > killed.membership.broker_epoch
    await until(lambda: other.image.brokers[1].epoch == again.membership.broker_epoch)
    assert other.image.brokers[1].kept_epochs == (killed.membership.broker_epoch,)


async def test_b22_another_directory_waits_for_the_lease_and_is_then_refused(
    brokers: Brokers,
) -> None:
    """Kafka refuses with DuplicateBrokerRegistration."""
    await brokers.start(1, facts(1, "first"))
    second = brokers.make(1)
    with pytest.raises(OSError, match="data directory first; this broker has second") as refused:
        await second.start(endpoints(1), directory=facts(1, "second"))
    assert "host1:9092" in str(refused.value)


async def test_b10_another_directory_registers_when_the_lease_has_ended(brokers: Brokers) -> None:
    """A broker with a new disk under an old id has kept nothing."""
    killed = await brokers.start(1, facts(1, "first"))
    brokers.kill(killed)
    second = brokers.make(1, timeout_ms=20_000)
    starting = asyncio.create_task(second.start(endpoints(1), directory=facts(1, "second")))
    await asyncio.sleep(0)
    brokers.clock.ms += SESSION_MS
    await starting
    assert second.image.brokers[1].directory_id == "second"
    assert second.image.brokers[1].kept_epochs == ()


class Unsure(MemoryStore):
    """A store that loses the response to a registration, after or before carrying it out. "with the
    lease": after the end of its lease."""

    lost = ""

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        lost = self.lost if compare and compare[0].key.startswith(records.BROKERS) else ""
        if lost:
            self.lost = ""
        if lost == "before":
            raise UnknownOutcome("no response")
        result = await super().txn(compare, operations)
        if lost == "with the lease":
            self.end_all_leases()
        if lost:
            raise UnknownOutcome("no response")
        return result

    @property
    def leases(self) -> list[int]:
        return list(self._leases)


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_b13_a_registration_with_an_unknown_outcome_is_made_once(lost: str) -> None:
    """The response to a transaction that was carried out can be lost. The broker used to end such a
    registration and to make another one."""
    brokers = Brokers()
    brokers.store = store = Unsure(now_ms=brokers.clock)
    store.lost = lost
    metadata = await brokers.start(1)
    broker = metadata.image.brokers[1]
    assert broker.epoch == metadata.membership.broker_epoch
    assert broker.lease_id == metadata.membership.lease_id
    assert metadata.image.registrations[1].epoch == broker.epoch
    assert (broker.kept_epochs, store.leases) == ((), [broker.lease_id])
    await brokers.stop()


async def test_b13_a_registration_with_an_ended_lease_and_unknown_outcome_is_known_as_own() -> None:
    """The response is lost, and the lease ends before the next attempt. The broker knows without
    the id of a boot that its directory has every record of both earlier registrations."""
    brokers = Brokers()
    brokers.store = store = Unsure(now_ms=brokers.clock)
    stopped = await brokers.start(1, facts(1, boot=""))
    first = stopped.membership.broker_epoch
    brokers.all.remove(stopped)
    await stopped.stop()
    store.lost = "with the lease"
    again = DirectoryFacts("directory-1", clean_stop_epoch=first)
    broker = (await brokers.start(1, again)).image.brokers[1]
    assert len(broker.kept_epochs) == 2
    assert broker.kept_epochs[0] == first
    await brokers.stop()


async def test_a_store_with_one_broker_costs_no_timer_and_no_further_transaction() -> None:
    """A broker with its metadata in its own directory stays as it was before there were clusters:
    the lease cannot end before the process."""
    store = MemoryStore()
    metadata = ClusterMetadata(store, Settings())
    await metadata.start(endpoints(1))
    assert metadata.membership.is_alone
    assert store.transactions == 2, "the cluster, and the registration with the controller"
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert "membership" not in names
    await metadata.create_topics([NewTopic("t", 3)])
    assert store.transactions == 3
    await metadata.stop()


async def test_a_broker_leaves_the_cluster_when_it_stops(brokers: Brokers) -> None:
    first = await brokers.start(1)
    second = await brokers.start(2)
    brokers.all.remove(second)
    await second.stop()
    await until(lambda: set(first.image.brokers) == {1})
    assert set(first.image.fenced) == {2}
