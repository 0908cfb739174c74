"""One broker at a time is the controller. It reacts to every change of the brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

import pytest
import structlog

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.cluster.store import Compare, Delete, Put, TxnResult, Write, WriteOperation
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.metadata import controller_loop, unfinished_creations
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.controller_loop import PREFERRED_AT_ONCE
from oncelog_server.refusal import Refused
from tests.server.metadata.brokers import Brokers, facts, until
from tests.server.metadata.memory_store import MemoryStore


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    brokers = Brokers()
    yield brokers
    await brokers.stop()


async def three(brokers: Brokers, **settings: Any) -> list[ClusterMetadata]:
    """Return three brokers. The first is the controller."""
    started = [await brokers.start(number, **settings) for number in (1, 2, 3)]
    await until(lambda: all(set(found.image.brokers) == {1, 2, 3} for found in started))
    return started


async def end(brokers: Brokers, metadata: ClusterMetadata) -> None:
    """Kill a broker, and end its lease."""
    brokers.kill(metadata)
    await brokers.store.revoke_lease(metadata.membership.lease_id)


def isrs(metadata: ClusterMetadata, topic: str) -> set[int]:
    return {b for found in metadata.image.topics[topic].partitions for b in found.isr}


async def test_defect_c_a_broker_that_ends_leaves_every_isr_at_once(brokers: Brokers) -> None:
    """Defect C of the cluster brief: leaders moved, and the dead broker stayed in every ISR."""
    first, second, third = await three(brokers)
    await first.create_topics([NewTopic("t", 150, 3)])
    await end(brokers, third)
    await until(lambda: isrs(second, "t") == {1, 2})
    assert {found.leader for found in second.image.topics["t"].partitions} == {1, 2}


async def test_b10_a_restart_with_an_empty_disk_is_not_in_sync(
    brokers: Brokers,
) -> None:
    """Defect C' of the cluster brief: a broker that restarted while it was in the ISR led again,
    whatever its disk had lost."""
    first, _, third = await three(brokers)
    await first.create_topics([NewTopic("t", 9, 3)])
    await end(brokers, third)
    await brokers.start(3, facts(3, "an empty disk"))
    await until(lambda: 3 in first.image.brokers)
    await until(lambda: isrs(first, "t") == {1, 2})
    assert 3 not in {found.leader for found in first.image.topics["t"].partitions}


async def test_the_last_broker_in_sync_waits_for_itself(brokers: Brokers) -> None:
    first, second, third = await three(brokers)
    await first.create_topics([NewTopic("t", 9, 2)])
    for metadata in (second, third):
        await end(brokers, metadata)
    await until(
        lambda: all(
            found.isr == (1,) or (found.isr == () and found.leader == NO_LEADER)
            for found in first.image.topics["t"].partitions
        )
    )
    again = [await brokers.start(number) for number in (2, 3)]
    await until(
        lambda: all(found.leader != NO_LEADER for found in first.image.topics["t"].partitions)
    )
    assert again[0].image.controller_id == 1


async def test_when_the_controller_ends_another_broker_becomes_it_and_decides(
    brokers: Brokers,
) -> None:
    first, second, third = await three(brokers)
    assert first.image.controller_id == 1
    await second.create_topics([NewTopic("t", 9, 3)])
    epoch = second.image.controller_epoch
    await end(brokers, first)
    await until(lambda: second.image.controller_epoch > epoch)
    await until(lambda: isrs(third, "t") == {2, 3})
    assert second.image.controller_id in (2, 3)


async def test_a_broker_that_becomes_the_controller_again_looks_at_everything(
    brokers: Brokers,
) -> None:
    """The controller in between may have ended before it had decided everything."""
    first = await brokers.start(1)
    await first.create_topics([NewTopic("t")])
    store = brokers.store
    other = records.encode(records.ControllerRecord(9))
    await store.txn((), [Put(records.CONTROLLER, other)])
    await until(lambda: first.image.controller_id == 9)
    key = records.partition_key(first.image.topics["t"].id_text, 0)
    epochs = (first.membership.broker_epoch,)
    offline = records.PartitionRecord((1,), (), NO_LEADER, 1, elr=(1,), elr_epochs=epochs)
    await store.txn((), [Put(key, records.encode(offline))])
    await until(lambda: first.image.topics["t"].partitions[0].leader == NO_LEADER)
    await store.txn((), [Delete(records.CONTROLLER)])
    await until(lambda: first.image.topics["t"].partitions[0].leader == 1)
    assert first.image.controller_id == 1


async def test_partitions_of_a_stale_creator_get_a_live_leader(brokers: Brokers) -> None:
    """The creator may not have seen yet that a replica is not alive."""
    first, second, third = await three(brokers)
    dead = third.membership.broker_epoch
    await end(brokers, third)
    await until(lambda: 3 not in first.image.brokers)
    topic = records.TopicRecord("AAAAAAAAAAAAAAAAAAAAAQ", 1)
    epochs = (dead, second.membership.broker_epoch)
    stale = records.PartitionRecord((3, 2), (3, 2), 3, 0, isr_epochs=epochs)
    await brokers.store.txn(
        (),
        [
            Put(records.topic_key("t"), records.encode(topic)),
            Put(records.partition_key(topic.id, 0), records.encode(stale)),
        ],
    )
    await until(lambda: "t" in first.image.topics)
    await until(lambda: first.image.topics["t"].partitions[0].leader == 2)
    assert first.image.topics["t"].partitions[0].isr == (2,)


@pytest.mark.parametrize("allowed_by", ["topic", "all brokers", "controller"])
async def test_a_topic_that_allows_an_unclean_election_gets_a_leader_at_once(
    brokers: Brokers, allowed_by: str
) -> None:
    """The setting of brokers is a dynamic one (KIP-226)."""
    first, _, third = await three(brokers)
    await first.create_topics([NewTopic("t", assignments=((0, (3, 1)),))])
    key = records.partition_key(first.image.topics["t"].id_text, 0)
    epoch = third.membership.broker_epoch
    alone = records.PartitionRecord((3, 1), (3,), 3, 0, isr_epochs=(epoch,))
    await brokers.store.txn((), [Put(key, records.encode(alone))])
    await end(brokers, third)
    await until(lambda: first.image.topics["t"].partitions[0].leader == NO_LEADER)
    own = {"unclean.leader.election.enable": "true"}
    if allowed_by == "topic":
        await first.alter_topic_settings("t", lambda before: own)
    else:
        name = "" if allowed_by == "all brokers" else "1"
        await first.alter_broker_settings(name, lambda before: own)
    await until(lambda: first.image.topics["t"].partitions[0].leader == 1)
    assert first.image.topics["t"].partitions[0].isr == (1,)


async def test_preferred_leaders_lead_again(brokers: Brokers) -> None:
    first, _, _ = await three(brokers)
    await first.create_topics([NewTopic("t", 30, 3)])
    for number, found in enumerate(first.image.topics["t"].partitions):
        key = records.partition_key(first.image.topics["t"].id_text, number)
        moved = records.PartitionRecord(
            found.replicas, found.isr, found.replicas[1], 1, isr_epochs=found.isr_epochs
        )
        await brokers.store.txn((), [Put(key, records.encode(moved))])
    await until(lambda: all(p.leader_epoch for p in first.image.topics["t"].partitions))
    await first._controller.balance()
    assert all(found.leader == found.replicas[0] for found in first.image.topics["t"].partitions)


async def test_elections_do_not_wait_for_preferred_leaders(brokers: Brokers) -> None:
    """After a restart of broker 2, many partitions wait for it as their leader. Broker 3 ends while
    the controller moves them. Its partitions get a leader after one more step at most."""
    first, _, third = await three(brokers, leader_imbalance_check_interval_seconds=1)
    count = 8 * PREFERRED_AT_ONCE
    replicas = [(2, 1, 3)] * count + [(3, 1, 2)] * 9
    await first.create_topics([NewTopic("t", assignments=tuple(enumerate(replicas)))])
    topic = first.image.topics["t"]
    moves = []
    for found in topic.partitions[:count]:
        moved = records.PartitionRecord(
            found.replicas, found.isr, 1, found.leader_epoch + 1, isr_epochs=found.isr_epochs
        )
        key = records.partition_key(topic.id_text, found.partition)
        moves.append(Put(key, records.encode(moved)))
    for start in range(0, count, PREFERRED_AT_ONCE):
        await brokers.store.txn((), moves[start : start + PREFERRED_AT_ONCE])

    def waiting() -> int:
        return sum(p.leader == 1 for p in first.image.topics["t"].partitions[:count])

    most = count - PREFERRED_AT_ONCE
    await until(lambda: first.image.topics["t"].partitions[count - 1].leader_epoch > 0)
    await until(lambda: 0 < waiting() <= most)
    await end(brokers, third)
    await until(lambda: 3 not in first.image.brokers)
    before = waiting()
    await until(lambda: all(p.leader != 3 for p in first.image.topics["t"].partitions))
    assert before - waiting() <= PREFERRED_AT_ONCE
    await until(lambda: not waiting())


class Defect:
    """A decision that raises some times."""

    def __init__(self, times: int, decide: Callable[..., list[Write]]) -> None:
        self.times = times
        self._decide = decide

    def __call__(self, *args: Any, **more: Any) -> list[Write]:
        if self.times:
            self.times -= 1
            raise KeyError("a defect")
        return self._decide(*args, **more)


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> Defect:
    defect = Defect(0, elect_leaders)
    monkeypatch.setattr(controller_loop, "elect_leaders", defect)
    monkeypatch.setattr(controller_loop, "RETRY_S", 0.01)
    return defect


async def test_a_decision_that_fails_by_a_defect_is_made_again(
    brokers: Brokers, defect: Defect
) -> None:
    first, second, third = await three(brokers)
    await first.create_topics([NewTopic("t", 9, 3)])
    defect.times = 2
    with structlog.testing.capture_logs() as logged:
        await end(brokers, third)
        await until(lambda: isrs(second, "t") == {1, 2})
    assert second.image.controller_id == 1
    (event,) = (event for event in logged if event.get("exc_info"))
    assert event["event"] == "the controller's decisions failed"


async def test_a_controller_with_a_lasting_defect_lets_another_broker_decide(
    brokers: Brokers, defect: Defect
) -> None:
    first, second, third = await three(brokers)
    await first.create_topics([NewTopic("t", 9, 3)])
    defect.times = controller_loop.MOST_DEFECTS
    await end(brokers, third)
    await until(lambda: isrs(second, "t") == {1, 2})
    assert second.image.controller_id == 2
    assert first.membership.is_valid


async def test_a_controller_without_another_broker_is_a_candidate_again(
    brokers: Brokers, defect: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_loop, "NO_CANDIDATE_S", 0.1)
    first = await brokers.start(1)
    epoch = first.image.controller_epoch
    defect.times = controller_loop.MOST_DEFECTS
    await brokers.start(2)
    await end(brokers, brokers.all[1])
    await until(lambda: first.image.controller_id == 1 and first.image.controller_epoch > epoch)
    assert not defect.times


async def test_a_broker_starts_although_a_decision_fails_by_a_defect(
    brokers: Brokers, defect: Defect
) -> None:
    defect.times = 1
    first = await brokers.start(1)
    assert first.image.controller_id == 1
    await until(lambda: first._controller._pending == {})


async def test_elections_do_not_wait_for_the_folders_of_a_deleted_topic(brokers: Brokers) -> None:
    """The creation of a topic of the same name waits for them."""
    first, _, third = await three(brokers)
    await first.create_topics([NewTopic("t", 9, 3)])
    removed, waits = asyncio.Event(), asyncio.Event()

    async def deleted(names: Collection[str]) -> None:
        waits.set()
        await removed.wait()

    first.subscribe(lambda old, new, delta: None, deleted=deleted)
    creation = asyncio.create_task(first.create_topics([NewTopic("u")]))
    await waits.wait()
    await end(brokers, third)
    await until(lambda: isrs(first, "t") == {1, 2})
    assert not creation.done()
    removed.set()
    assert isinstance((await creation)[0], CreatedTopic)


async def test_a_topic_that_is_deleted_while_another_waits_is_waited_for_too(
    brokers: Brokers,
) -> None:
    """Another broker creates and deletes a topic of the same name, while a creation waits for the
    folders of earlier topics."""
    first, second = [await brokers.start(number) for number in (1, 2)]
    waits: list[asyncio.Future[None]] = []

    async def deleted(names: Collection[str]) -> None:
        waits.append(asyncio.get_running_loop().create_future())
        await waits[-1]

    first.subscribe(lambda old, new, delta: None, deleted=deleted)
    creation = asyncio.create_task(first.create_topics([NewTopic("t")]))
    await until(lambda: len(waits) == 1)
    await second.create_topics([NewTopic("t")])
    await second.delete_topics(["t"])
    await until(lambda: first.follower.topics_deleted == 1)
    waits[0].set_result(None)
    await until(lambda: len(waits) == 2)
    assert "t" not in first.image.topics
    waits[1].set_result(None)
    assert isinstance((await creation)[0], CreatedTopic)


class Slow(MemoryStore):
    """A store that stops a creation after its first transaction."""

    stopped: asyncio.Event | None = None
    resumes: asyncio.Event

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        result = await super().txn(compare, operations)
        first = operations[0].key if operations else ""
        if self.stopped is not None and first.startswith(records.CREATING):
            self.stopped.set()
            await self.resumes.wait()
        return result


@pytest.fixture
async def slow() -> AsyncIterator[Brokers]:
    brokers = Brokers()
    brokers.store = store = Slow(now_ms=brokers.clock)
    store.resumes = asyncio.Event()
    yield brokers
    store.resumes.set()
    await brokers.stop()


@pytest.mark.parametrize("adds", [False, True])
async def test_b17_a_broker_that_starts_during_a_creation_leaves_it_alone(
    slow: Brokers, adds: bool
) -> None:
    """Defect B of the cluster brief: each start removed the partitions of a topic that was being
    created. The topic's record followed, and no broker could start any more."""
    store = slow.store
    assert isinstance(store, Slow)
    first = await slow.start(1)
    if adds:
        await first.create_topics([NewTopic("big", 2)])
    store.stopped = asyncio.Event()
    creating: asyncio.Task[object] = asyncio.create_task(
        first.create_partitions([NewPartitions("big", 400)])
        if adds
        else first.create_topics([NewTopic("big", 400)])
    )
    await store.stopped.wait()
    second = await slow.start(2)
    # A new controller looks for partitions without a topic. The creator's lease lives.
    epoch = second.image.controller_epoch
    await store.txn((), [Delete(records.CONTROLLER)])
    await until(lambda: second.image.controller_epoch > epoch)
    store.resumes.set()
    await asyncio.wait([creating])
    await until(lambda: len(second.image.topics["big"].partitions) == 400)
    assert second.image.topics["big"].missing == ()
    third = await slow.start(3)
    assert third.image.topics["big"].missing == ()


async def test_b17_the_partitions_of_a_creator_that_ends_are_removed(slow: Brokers) -> None:
    store = slow.store
    assert isinstance(store, Slow)
    second = await slow.start(2)
    first = await slow.start(1)
    store.stopped = asyncio.Event()
    creating = asyncio.create_task(first.create_topics([NewTopic("big", 400)]))
    await store.stopped.wait()
    store.stopped = None
    await until(lambda: bool(second.image.orphans()))
    await store.revoke_lease(first.membership.lease_id)
    await until(lambda: not second.image.orphans())
    store.resumes.set()
    (outcome,) = await creating
    # The creator has noticed, and has made the topic again or refused it.
    if isinstance(outcome, CreatedTopic):
        assert second.image.topics["big"].missing == ()
    else:
        assert isinstance(outcome, Refused)
        assert "big" not in second.image.topics
        await until(lambda: not second.image.orphans())


async def test_a_failed_creation_leaves_no_partitions(slow: Brokers) -> None:
    """Another broker creates a topic of the same name meanwhile."""
    store = slow.store
    assert isinstance(store, Slow)
    first, second = await slow.start(1), await slow.start(2)
    store.stopped = asyncio.Event()
    creating = asyncio.create_task(first.create_topics([NewTopic("big", 400)]))
    await store.stopped.wait()
    store.stopped = None
    await second.create_topics([NewTopic("big", 1)])
    store.resumes.set()
    (outcome,) = await creating
    assert isinstance(outcome, Refused)
    await until(lambda: not first.image.creating)
    await until(lambda: not first.image.orphans())
    assert len(first.image.topics["big"].partitions) == 1


async def test_a_creation_that_the_store_refuses_halfway_leaves_no_partitions(
    slow: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker lives on, so its lease does not end the creation."""
    monkeypatch.setattr(unfinished_creations, "RETRY_S", 0.001)
    store = slow.store
    assert isinstance(store, Slow)
    first = await slow.start(1, heartbeat_ms=60_000)
    store.stopped = asyncio.Event()
    creating = asyncio.create_task(first.create_topics([NewTopic("big", 400)]))
    await store.stopped.wait()
    store.stopped = None
    # The second transaction of the creation fails, and then the first attempt to end it.
    store.fail_next = [OSError("no response"), OSError("no response")]
    store.resumes.set()
    (outcome,) = await creating
    assert isinstance(outcome, Refused)
    await until(lambda: not first.image.creating)
    await until(lambda: not first.image.orphans())
    (outcome,) = await first.create_topics([NewTopic("big", 400)])
    assert isinstance(outcome, CreatedTopic)
