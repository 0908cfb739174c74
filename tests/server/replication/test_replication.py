"""Two and three real brokers replicate the log of a topic, and lose no acknowledged record when one
of them is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_client.consumer import Consumer
from oncelog_client.producer import Producer
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_server.clock import boottime_ms
from oncelog_server.cluster import records
from oncelog_server.refusal import Refused
from oncelog_server.storage.layout import HIGH_WATERMARK_CHECKPOINT
from tests.harness.driving import list_offset
from tests.harness.writing import produce
from tests.server.log.driver import NOW_MS, batch
from tests.server.replication.brokers import TOPIC, Cluster, cluster, cut_off

COUNT = 200


async def sent(found: Cluster, first: int, count: int) -> list[str]:
    """Send records with acks=all, and return the acknowledged values."""
    values = [f"value {number}" for number in range(first, first + count)]
    async with Producer(found.addresses, acks="all", linger_ms=0) as producer:
        places = [await producer.send(TOPIC, value=value.encode()) for value in values]
        await asyncio.gather(*places)
    return values


async def read(found: Cluster, count: int) -> list[str]:
    """Return the first records of partition 0."""
    values: list[str] = []
    async with Consumer(found.addresses, auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition(TOPIC, 0)])
        async with asyncio.timeout(60):
            while len(values) < count:
                for record in await consumer.poll(1_000):
                    assert record.value is not None
                    values.append(record.value.decode())
    return values


@pytest.mark.parametrize("flush_on_ack", [False, True])
async def test_records_are_on_every_replica_before_they_are_acknowledged(
    tmp_path: Path, flush_on_ack: bool
) -> None:
    async with cluster(tmp_path, 1, 2, 3, oncelog_flush_on_ack=flush_on_ack) as found:
        await found.create((1, 2, 3))
        values = await sent(found, 0, COUNT)
        ends = [found.replica(id).log_end_offset for id in (1, 2, 3)]
        assert ends == [COUNT] * 3
        if flush_on_ack:
            assert [found.replica(id).recovery_point for id in (1, 2, 3)] == [COUNT] * 3
        await found.replicated(1, 2, 3)
        assert found.log_of(1) == found.log_of(2) == found.log_of(3)
        assert await read(found, COUNT) == values


async def test_after_the_death_of_its_leader_a_partition_has_every_acknowledged_record(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, 3) as found:
        await found.create((1, 2, 3))
        values = await sent(found, 0, COUNT)
        await found.kill(1)
        leader = await found.elected()
        assert await read(found, COUNT) == values
        values += await sent(found, COUNT, COUNT)
        assert await read(found, 2 * COUNT) == values
        await found.replicated(leader, *({2, 3} - {leader}))
        assert found.log_of(2) == found.log_of(3)


async def test_b4_a_leader_that_comes_back_drops_what_was_not_acknowledged(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as found:
        await found.create((1, 2))
        await sent(found, 0, 20)
        await found.replicated(1, 2)
        cut_off(found, 2)
        found.replica(1).append(batch(5), now_ms=NOW_MS)
        await found.kill(1)
        assert await found.elected() == 2
        values = await sent(found, 20, 20)
        await found.start_one(1)
        await found.replicated(2, 1)
        assert found.log_of(1) == found.log_of(2)
        await found.elect(1)
        assert (await read(found, 40))[20:] == values


async def test_a_partition_without_its_follower_acknowledges_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as found:
        await found.create((1, 2))
        await sent(found, 0, 1)
        cut_off(found, 2)
        codes: list[ErrorCode] = []
        led = found.replica(1)
        led.append(batch(), now_ms=NOW_MS)
        led.when_committed(2, codes.append)
        await asyncio.sleep(0)
        assert (led.high_watermark, codes) == (1, [])
        await found.kill(2)
        await found.until(lambda: codes)
        assert (led.high_watermark, codes) == (2, [ErrorCode.NONE])


async def deleted(found: Cluster, before: int, timeout_ms: int) -> tuple[int, int]:
    """Delete the records of partition 0 at its leader. Return the error code and low watermark."""
    ((_, host, port),) = found.brokers[1].addresses
    rows = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, before)])]

    def ask() -> tuple[int, int]:
        with Wire(f"{host}:{port}") as wire:
            response = wire.call(DeleteRecordsRequest(rows, timeout_ms=timeout_ms), 2)
            (result,) = response.topics[0].partitions
            return result.error_code, result.low_watermark

    return await asyncio.to_thread(ask)


async def test_deleted_records_are_gone_from_every_live_replica_before_the_response(
    tmp_path: Path,
) -> None:
    """KIP-107. Otherwise they would come back with the next leader."""
    async with cluster(tmp_path, 1, 2, 3) as found:
        await found.create((1, 2, 3))
        await sent(found, 0, 10)
        await found.replicated(1, 2, 3)
        assert await deleted(found, 4, 60_000) == (ErrorCode.NONE, 4)
        assert [found.replica(id).log_start_offset for id in (1, 2, 3)] == [4] * 3
        cut_off(found, 2)
        assert await deleted(found, 7, 200) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        await found.until(lambda: found.replica(3).log_start_offset == 7)
        await found.kill(2)
        await found.until(lambda: 2 not in found.brokers[1].metadata.image.brokers)
        assert await deleted(found, -1, 60_000) == (ErrorCode.NONE, 10)
        assert [found.replica(id).log_start_offset for id in (1, 3)] == [10] * 2


async def test_b11_a_broker_that_hears_nothing_serves_no_reads_and_acks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker neither renews its lease nor sees the metadata change. It stops by its own clock,
    before its lease ends."""
    async with cluster(tmp_path, 1, 2, broker_session_timeout_ms=2_000) as found:
        # The store ends no lease, however long this process is paused. So only the clock of the
        # broker can stop it.
        monkeypatch.setattr(found.store, "end_leases", lambda: None)
        await found.create((1, 2))
        await sent(found, 0, 1)
        deaf = found.brokers[1]
        ends_ms = found.store._ends_ms[deaf.metadata.membership.lease_id]
        keeping = deaf.metadata.membership._keeping
        assert keeping is not None
        keeping.cancel()
        await deaf.metadata._follower.stop()
        led = found.replica(1)
        await found.until(lambda: not led.is_leader)
        assert records.broker_key(1) in found.store.entries
        assert boottime_ms() >= deaf.metadata.membership.authority.valid_until_ms
        assert deaf.metadata.membership.authority.valid_until_ms < ends_ms
        _, host, port = deaf.addresses[0]

        def codes() -> tuple[int, int]:
            with Wire(f"{host}:{port}") as wire:
                produced = produce(wire, TOPIC, batch(), acks=1)
                return produced.error_code, list_offset(wire, TOPIC, -1)[0]

        assert await asyncio.to_thread(codes) == (ErrorCode.NOT_LEADER_OR_FOLLOWER,) * 2
        assert led.log_end_offset == 1


async def test_below_the_min_isr_neither_clients_nor_markers_are_written(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as found:
        await found.create((1, 2), **{"min.insync.replicas": "2"})
        await sent(found, 0, 1)
        cut_off(found, 2)  # or the leader takes the follower back into the ISR
        found.write(0, isr=(1,))
        led = found.replica(1)
        await found.until(lambda: led.replicas.is_under_min_isr)
        with pytest.raises(Refused) as refused:
            led.append_marker(
                7, 0, committed=True, coordinator_epoch=0, transaction_version=1, now_ms=NOW_MS
            )
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert led.log_end_offset == 1


async def test_a_follower_keeps_its_high_watermark_over_a_clean_stop(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as found:
        await found.create((1, 2))
        await sent(found, 0, 10)
        await found.replicated(1, 2)
        await found.brokers.pop(2).stop()
        checkpoint = (tmp_path / "2" / HIGH_WATERMARK_CHECKPOINT).read_text()
        assert f"{TOPIC} 0 10" in checkpoint
        found.replica(1).append(batch(), now_ms=NOW_MS)
        broker = await found.start_one(2)
        assert broker.partitions.require(TOPIC, 0).high_watermark >= 10


async def test_a_marker_that_is_not_committed_holds_the_last_stable_offset_over_a_clean_stop(
    tmp_path: Path,
) -> None:
    """The snapshot of a clean stop is at the log end, above the marker."""
    async with cluster(tmp_path, 1, 2) as found:
        await found.create((1, 2), **{"min.insync.replicas": "2"})
        led = found.replica(1)
        led.append(
            batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
            now_ms=NOW_MS,
        )
        await found.until(lambda: led.high_watermark == 1)
        cut_off(found, 2)
        led.append_marker(
            7, 0, committed=True, coordinator_epoch=0, transaction_version=1, now_ms=NOW_MS
        )
        await found.kill(2)
        assert (led.last_stable_offset, led.high_watermark, led.log_end_offset) == (0, 1, 2)
        await found.brokers.pop(1).stop()
        await found.start_one(1)
        led = found.replica(1)
        assert (led.last_stable_offset, led.high_watermark, led.log_end_offset) == (0, 1, 2)


async def test_b2_partitions_move_between_leaders_again_and_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as found:
        await found.create((1, 2, 3), (2, 3, 1), (3, 1, 2))
        async with Producer(found.addresses, acks="all") as producer:
            for round in range(6):
                for index in range(3):
                    for number in range(10):
                        await producer.send(TOPIC, value=b"%d" % number, partition=index)
                await producer.flush()
                for index in range(3):
                    await found.elect((index + round) % 3 + 1, index=index)
        for index in range(3):
            leader = found.image(index).leader
            others = [id for id in (1, 2, 3) if id != leader]
            await found.until(lambda: found.replica(leader, index).is_leader)  # noqa: B023
            await found.replicated(leader, *others, index=index)
            assert found.log_of(1, index) == found.log_of(2, index) == found.log_of(3, index)


async def test_a_replica_that_is_not_assigned_any_more_is_removed(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as found:
        await found.create((1, 2))
        await sent(found, 0, 5)
        found.write(0, isr=(1,), replicas=(1,))
        await found.until(lambda: not len(found.brokers[2].partitions))
        await found.until(lambda: found.log_of(2) == b"")
        await sent(found, 5, 5)
        with pytest.raises(Refused) as refused:
            found.replica(2)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_with_an_elr_commits_nothing(tmp_path: Path) -> None:
    """The member of the ELR may be elected, and lacks new records (KIP-966). A lower min ISR may
    arrive before the controller has ended the ELR."""
    async with cluster(tmp_path, 1) as found:
        await found.create((1,))
        await found.brokers[1].metadata._controller.stop()  # it would end the ELR
        found.write(0, replicas=(1, 9), isr=(1,), elr=(9,), elr_epochs=(-1,))
        await found.until(lambda: found.replica(1).replicas.assignment == (1, 9))
        found.replica(1).append(batch(3), now_ms=NOW_MS)
        assert (found.replica(1).log_end_offset, found.replica(1).high_watermark) == (3, 0)
        found.write(0, elr=(), elr_epochs=())
        await found.until(lambda: found.replica(1).high_watermark == 3)


async def test_a_single_broker_loads_no_fetcher(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as found:
        await found.create((1,), (1,))
        await sent(found, 0, 5)
        assert found.brokers[1]._late_replication._replication is None


async def test_b8_leadership_moves_under_pipelined_idempotent_batches(tmp_path: Path) -> None:
    count = 600
    async with cluster(tmp_path, 1, 2, 3) as found:
        await found.create((1, 2, 3))
        async with Producer(found.addresses, acks="all", linger_ms=0, batch_size=200) as producer:
            places = []
            for number in range(count):
                places.append(await producer.send(TOPIC, value=b"value %d" % number))
                if number % 100 == 50:
                    await found.elect((number // 100) % 3 + 1)
            await asyncio.gather(*places)
        assert await read(found, count) == [f"value {number}" for number in range(count)]
        leader = await found.elected()
        await found.replicated(leader, *({1, 2, 3} - {leader}))
        assert found.replica(leader).log_end_offset == count
        assert found.log_of(1) == found.log_of(2) == found.log_of(3)
        mismatches = [found.replica(id)._log.mismatches for id in (1, 2, 3)]
        assert mismatches == [0, 0, 0]


async def test_fetchers_have_the_timeout_of_their_setting(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, replica_socket_timeout_ms=4_321) as found:
        await found.create((1, 2))
        await sent(found, 0, 1)
        links = found.brokers[2]._late_replication.started().fetchers._parts.links
        link = links.to(1)
        assert link is not None
        assert link._timeout_s == 4.321
