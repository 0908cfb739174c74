"""A broker that stops moves its leaders first, while it still serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import structlog

from oncelog_server.cluster import records
from oncelog_server.cluster.draining import led_by
from oncelog_server.cluster.image import NO_LEADER, PartitionImage
from oncelog_server.cluster.store import Compare, Put, TxnResult, UnknownOutcome, WriteOperation
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata import controlled_shutdown
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.controlled_shutdown import ControlledShutdown
from oncelog_server.settings.model import Settings
from tests.server.metadata.brokers import Brokers, endpoints, until
from tests.server.metadata.memory_store import MemoryStore


@pytest.fixture
async def brokers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Brokers]:
    monkeypatch.setattr(controlled_shutdown, "LAST_RESPONSES_S", 0)
    brokers = Brokers()
    yield brokers
    await brokers.stop()


async def three(brokers: Brokers, replicas: int = 3) -> list[ClusterMetadata]:
    """Return three brokers with a topic `t` of nine partitions. The first is the controller."""
    started = [await brokers.start(number) for number in (1, 2, 3)]
    await until(lambda: all(set(found.image.brokers) == {1, 2, 3} for found in started))
    await started[0].create_topics([NewTopic("t", 9, replicas)])
    await until(lambda: all("t" in found.image.topics for found in started))
    return started


def partitions(metadata: ClusterMetadata) -> Sequence[PartitionImage]:
    return metadata.image.topics["t"].partitions


def shutdown(metadata: ClusterMetadata, broker_id: int, limit_s: float) -> ControlledShutdown:
    return ControlledShutdown(
        metadata.store, metadata.follower, metadata.membership, broker_id, limit_s=limit_s
    )


def warnings(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [event for event in events if event["log_level"] == "warning"]


@pytest.mark.parametrize("broker_id", [1, 2])
async def test_a_broker_leads_nothing_and_is_in_no_isr_before_it_stops(
    brokers: Brokers, broker_id: int
) -> None:
    """KIP-841. The first broker is the controller, and moves its own leaders."""
    started = await three(brokers)
    stopping = started[broker_id - 1]
    with structlog.testing.capture_logs() as events:
        await stopping.move_leaders()
    assert broker_id in stopping.image.brokers, "the broker is still registered"
    for partition in partitions(stopping):
        assert partition.leader not in (broker_id, NO_LEADER)
        assert set(partition.isr) == {1, 2, 3} - {broker_id}
    (moved,) = [event for event in events if event["event"] == "leaders moved"]
    assert moved["partitions"] == 3
    brokers.all.remove(stopping)
    await stopping.stop()
    other = started[2]
    await until(lambda: broker_id not in other.image.brokers)
    assert not other.image.draining, "the key ends with the lease"
    await until(lambda: other.image.controller_id in {1, 2, 3} - {broker_id})


async def test_partitions_that_only_this_broker_can_lead_delay_no_stop(brokers: Brokers) -> None:
    started = await three(brokers, replicas=1)
    with structlog.testing.capture_logs() as events:
        await shutdown(started[1], 2, limit_s=1).run()
    assert not warnings(events)
    assert sum(partition.leader == 2 for partition in partitions(started[1])) == 3


async def test_brokers_that_stop_together_do_not_wait_for_each_other(brokers: Brokers) -> None:
    started = await three(brokers)
    with structlog.testing.capture_logs() as events:
        await asyncio.gather(
            *(shutdown(found, id_, limit_s=10).run() for id_, found in enumerate(started, start=1))
        )
    assert not warnings(events)
    assert set(started[0].image.draining) == {1, 2, 3}


async def test_the_limit_ends_the_wait_for_a_replica_that_is_not_in_sync(brokers: Brokers) -> None:
    first, second, _ = await three(brokers)
    only = partitions(first)[0]
    record = records.PartitionRecord(
        only.replicas, (2,), 2, 5, isr_epochs=(first.image.brokers[2].epoch,)
    )
    key = records.partition_key(first.image.topics["t"].id_text, 0)
    brokers.store.apply([Put(key, records.encode(record))])
    await until(lambda: partitions(second)[0].isr == (2,))
    with structlog.testing.capture_logs() as events:
        await shutdown(second, 2, limit_s=0.2).run()
    (left,) = warnings(events)
    assert (left["partitions"], left["some"]) == (1, ["t-0"])
    assert partitions(second)[0].leader == 2, "it is served until the stop"


async def test_a_store_that_fails_delays_no_stop(brokers: Brokers) -> None:
    _, second, _ = await three(brokers)
    brokers.store.is_cut_off = True
    with structlog.testing.capture_logs() as events:
        await shutdown(second, 2, limit_s=30).run()
    # The brokers may also warn that they cannot renew their registrations.
    found = [event["event"] for event in warnings(events)]
    assert found.count("the broker stops without moving its leaders") == 1, found


class ForgetfulStore(MemoryStore):
    """A store that does not carry out the first drain, and gives no response to it."""

    losses = 1

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        if self.losses and any(op.key.startswith(records.DRAINING) for op in operations):
            self.losses -= 1
            raise UnknownOutcome("no response")
        return await super().txn(compare, operations)


async def test_after_an_unknown_outcome_the_key_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controlled_shutdown, "RETRY_S", 0.01)
    monkeypatch.setattr(controlled_shutdown, "LAST_RESPONSES_S", 0)
    clocked = Brokers()
    brokers = Brokers(ForgetfulStore(now_ms=clocked.clock), clocked.clock)
    try:
        _, second, _ = await three(brokers)
        await shutdown(second, 2, limit_s=30).run()
        assert 2 not in {partition.leader for partition in partitions(second)}
    finally:
        await brokers.stop()


async def test_with_an_ended_registration_there_is_nothing_to_move(brokers: Brokers) -> None:
    first, second, _ = await three(brokers)
    await second.membership.stop_keeping()
    await brokers.store.revoke_lease(second.membership.lease_id)
    await until(lambda: 2 not in second.image.brokers)
    await shutdown(second, 2, limit_s=30).run()
    await until(lambda: 2 not in {partition.leader for partition in partitions(first)})
    assert not first.image.draining


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_single_broker_and_one_without_the_setting_write_no_key(enabled: bool) -> None:
    """With a store that ends with the process (no clock), the broker is alone."""
    brokers = Brokers()
    store = MemoryStore() if enabled else brokers.store
    settings = Settings(node_id=1, controlled_shutdown_enable=enabled)
    metadata = ClusterMetadata(store, settings, boottime_ms=brokers.clock)
    await metadata.start(endpoints(1))
    before = store.transactions
    await metadata.move_leaders()
    assert store.transactions == before
    await metadata.stop()


async def test_a_partition_that_is_gained_while_the_stop_begins_is_moved_too(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbor stops at the same moment, and its leader moves here before the others see that
    this broker drains."""
    started = await three(brokers)
    stopping = started[1]
    stop = shutdown(stopping, 2, 5.0)
    # What the broker led at the beginning, before the last elections.
    monkeypatch.setattr(controlled_shutdown, "led_by", late_view(led_by))
    with structlog.testing.capture_logs() as events:
        await stop.run()
    assert all(partition.leader != 2 for partition in partitions(stopping))
    assert not warnings(events)


def late_view(seen_by: Any) -> Any:
    """Return a `led_by` that sees no partition at its first call."""
    calls = [0]

    def seen(*arguments: Any) -> Any:
        calls[0] += 1
        return () if calls[0] == 1 else seen_by(*arguments)

    return seen
