"""Damaged, failing and full disks of one broker of a cluster, and power losses of all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from oncelog_client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from oncelog_client.admin import ElectionType
from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.partition import Partition
from tests.simulation.checking.invariants import check_files
from tests.simulation.cluster.instance import Instance
from tests.simulation.cluster.judgement import ClusterJudgement
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.stage import OPTIONS, SECOND_US, Stage, play
from tests.simulation.disk_logs import logs_on
from tests.simulation.fault import Fault

LOG: Final = "a-0"
PLACE: Final = TopicPartition("a", 0)
OTHER: Final = TopicPartition("out", 0)
# Several segments for the records of a test.
SMALL_SEGMENTS: Final = replace(OPTIONS, segment_bytes=1_000, checkpoint_ms=60_000)
TRANSACTIONS: Final = 20


class Written(Stage):
    """A cluster with transactions in one partition, before and after a fault of a disk."""

    async def act(self) -> None:
        await self.create_internal_topics()
        self.writer = Instance(self, "writer", "w")
        await self.writer.start()
        await self.until(self.in_sync, "all brokers are in sync")
        await self.write()
        await self.fail()
        await self.write()
        await self.until(self.in_sync, "all brokers are in sync")
        await self.writer.end()

    async def write(self) -> None:
        for _ in range(TRANSACTIONS):
            await self.writer.transaction([PLACE])

    async def fail(self) -> None:
        raise NotImplementedError

    @property
    def leader(self) -> MemberNode:
        return self.nodes[self.leader_of(LOG)]

    @property
    def follower(self) -> MemberNode:
        return next(node for node in self.nodes.values() if node is not self.leader)


def segments_of(node: MemberNode) -> list[str]:
    """Return the paths of the segments on a broker's disk."""
    logs = [path for path in sorted(node.disk.names.files) if path.startswith(f"{LOG}/")]
    return [path for path in logs if path.endswith(".log")]


class FlippedBit(Written):
    """A bit of a middle segment flips while a broker is down after a kill."""

    of_leader = False

    async def fail(self) -> None:
        node = self.leader if self.of_leader else self.follower
        node.kill()
        segments = segments_of(node)
        if len(segments) < 3:
            self.violate(f"only {segments}")
        node.disk.damage(segments[len(segments) // 2], "flip")
        self.restart_after(node, 4 * SECOND_US)
        await self.until(lambda: self.leader_of(LOG) not in (node.broker_id, -1), "another leads")


@pytest.mark.parametrize("seed", range(2))
def test_s3a_a_follower_with_a_flipped_bit_becomes_equal_to_its_leader_again(seed: int) -> None:
    play(FlippedBit, SMALL_SEGMENTS, seed)


@pytest.mark.parametrize("seed", range(2))
def test_s3b_a_leader_with_a_flipped_bit_leads_again_only_with_all_records(seed: int) -> None:
    class OfLeader(FlippedBit):
        of_leader = True

    play(OfLeader, SMALL_SEGMENTS, seed)


class DamagedAtRest(Written):
    """A batch of a leader is damaged while the broker is down after a clean stop, so that no start
    reads it."""

    segment: int
    # In the first batch of the segment.
    position: int

    async def fail(self) -> None:
        node = self.leader
        await self.stop(node)
        segments = segments_of(node)
        if len(segments) < 4:
            self.violate(f"only {segments}")
        node.disk.names.files[segments[self.segment]].data[self.position] ^= 1
        self.restart_after(node, 1_000)
        await self.until(lambda: node.is_up, "the broker is up")
        await self.check_damaged(node)
        await self.stop(node)
        self.replace_disk(node)
        await self.until(lambda: self.leader_of(LOG) not in (node.broker_id, -1), "another leads")
        await self.check_whole()
        self.restart_after(node, 1_000)

    async def check_damaged(self, node: MemberNode) -> None:
        """Check that no reader gets the damaged batch."""
        raise NotImplementedError

    async def check_whole(self) -> None:
        """Check that another replica has all records."""
        values, error = await self.read()
        if values != self.writer.values or error is not None:
            self.violate(f"{len(values)} of {len(self.writer.values)} values were read: {error!r}")

    async def read(self) -> tuple[list[int], KafkaError | None]:
        """Read the partition from its start. Return the values, and the error that ends the
        read."""
        values: list[int] = []
        errors: list[KafkaError] = []

        async def read() -> None:
            async with Consumer(
                self.bootstrap, isolation_level="read_committed", enable_auto_commit=False
            ) as consumer:
                await consumer.assign([PLACE])
                await consumer.seek_to_beginning(PLACE)
                (end,) = (await consumer.end_offsets([PLACE])).values()
                while not errors and await consumer.position(PLACE) < end:
                    try:
                        records = await consumer.poll(timeout_ms=200)
                    except KafkaError as error:
                        errors.append(error)
                    else:
                        values.extend(int(record.value or b"") for record in records)

        await self.new_process("reader").run(read())
        return values, errors[0] if errors else None


class DamagedEnd(DamagedAtRest):
    """The start finds the damage, because it reads the last segment."""

    segment, position = -1, 16

    async def check_damaged(self, node: MemberNode) -> None:
        if list(map(str, node.broker.partitions.offline())) != [LOG]:
            self.violate(f"{node.host} has not found the damage")
        await self.check_whole()
        if self.leader_of(LOG) == node.broker_id:
            self.violate("the damaged replica leads")


def test_s3c_a_replica_that_is_damaged_at_its_end_does_not_lead_after_a_clean_stop() -> None:
    play(DamagedEnd, SMALL_SEGMENTS)


class DamagedMiddle(DamagedAtRest):
    """No start finds the damage, so the broker leads again, and a reader finds it."""

    # In the type of a marker, or in the value of a record.
    position = 68

    async def check_damaged(self, node: MemberNode) -> None:
        await self.until(self.in_sync, "the damaged replica leads")
        values, error = await self.read()
        if error is None or error.code is not ErrorCode.CORRUPT_MESSAGE:
            self.violate(f"the reader gets {error!r}")
        if not 0 < len(values) < TRANSACTIONS or values != self.writer.values[: len(values)]:
            self.violate(f"the reader gets {values}")


@pytest.mark.parametrize("middle", [1, 2], ids=["marker", "record"])
def test_s3c_a_reader_refuses_a_damaged_batch_and_reads_it_from_the_next_leader(
    middle: int,
) -> None:
    class Damaged(DamagedMiddle):
        segment = middle

    play(Damaged, SMALL_SEGMENTS)


class FailedFlush(Written):
    """All flushes of a leader fail until its partition is offline. The records are on disk before
    the acknowledgment."""

    async def fail(self) -> None:
        node = self.leader
        led = self.replica(node.broker_id, LOG)
        node.disk.weather.sync_error = 1.0

        async def end() -> None:
            await self.until(lambda: led.offline is not None, "a flush has failed")
            node.disk.weather.sync_error = 0.0

        async with asyncio.TaskGroup() as together:
            together.create_task(end())
            together.create_task(self.writer.transaction([PLACE]))
        failed = list(map(str, node.broker.partitions.offline()))
        await self.until(
            lambda: node.broker_id not in map(self.leader_of, failed), "other brokers lead"
        )
        self.restart_after(node, SECOND_US, stop=True)


def test_s16_a_partition_whose_flush_has_failed_is_led_by_another_broker() -> None:
    play(FailedFlush, replace(OPTIONS, flush_on_ack=True))


class FullDisk(Written):
    """The disk of a leader is full for a while."""

    async def fail(self) -> None:
        node = self.leader
        led = self.replica(node.broker_id, LOG)
        end = led.log_end_offset
        node.disk.weather.full = True
        self.after(3 * SECOND_US, lambda: setattr(node.disk.weather, "full", False))
        self.after(3 * SECOND_US - 1, lambda: self._check_refused(node, led, end))
        await self.writer.transaction([PLACE])

    def _check_refused(self, node: MemberNode, led: Partition, end: int) -> None:
        """Check that the disk has refused all records until now. Another broker may have them."""
        if not node.disk.failures["full"] or led.log_end_offset != end:
            self.violate(f"{led.log_end_offset} after {end}, {node.disk.failures} were refused")


def test_d1_nothing_is_lost_while_the_disk_of_a_leader_is_full() -> None:
    play(FullDisk)


class EmptyDisk(Written):
    """A broker comes back with an empty disk under its old id, before it has missed a record."""

    async def fail(self) -> None:
        node = self.leader
        node.kill()
        self.replace_disk(node)
        self.restart_after(node, 1_000)
        await self.write()


def test_b10_a_broker_with_a_new_disk_gets_all_records_again() -> None:
    play(EmptyDisk)


class RecreatedTopic(Written):
    """A topic is deleted and created again while a broker with its old records is down."""

    async def fail(self) -> None:
        self.operator = self.new_process("operator")
        await self.operator.run(self._write_old())
        node = self.follower
        old = self.replica(node.broker_id, str(OTHER))
        await self.until(lambda: old.log_end_offset, "the replica has the old record")
        self.kill(node, 5 * SECOND_US)
        self.recreated.add("out")
        await self.operator.run(self._recreate())
        await self.writer.transaction([OTHER])
        if node.is_up:
            self.violate("the replica was not away")
        await self.until(lambda: node.is_up, "the broker is back")

    async def _write_old(self) -> None:
        async with Producer(self.bootstrap) as producer:
            await producer.send_and_wait("out", b"old", partition=0)

    async def _recreate(self) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.delete_topics(["out"])
            await admin.create_topics([NewTopic("out", self.options.topic_partitions, 3)])


def test_b18_a_replica_that_was_away_has_no_record_of_the_deleted_topic() -> None:
    play(RecreatedTopic)


class PowerLossOfAll(Stage):
    """All brokers lose their power at once, and with it records that were acknowledged before they
    were on disk. No broker knows whether it has lost some, so an operator lets any of them lead."""

    # The names of the brokers that have lost bytes of segments.
    losers: set[str]

    def _lose_power(self, node: MemberNode) -> None:
        before = self._segments(node)
        super()._lose_power(node)
        if self._segments(node) != before:
            self.losers.add(node.host)

    def _segments(self, node: MemberNode) -> dict[str, bytes]:
        return {path: data for path, data in node.disk.image().items() if path.endswith(".log")}

    async def live(self, faults: list[Fault]) -> None:
        # The rules of replication do not hold: records that were committed are lost.
        await self._live(faults)

    async def act(self) -> None:
        self.losers = set()
        await self.create_internal_topics()
        for number in range(3):
            writer = Instance(self, f"writer-{number}", f"w-{number}")
            await writer.start()
            for _ in range(5):
                await writer.transaction(self.shared_partitions)
            await writer.open(self.shared_partitions)
        for node in self.nodes.values():
            self.kill(node, self.rng("starts").randrange(1_000, SECOND_US), power=True)
        await self.until(lambda: len(self.up()) == len(self.nodes), "all brokers are up")
        await self.until(lambda: self.leader_of(LOG) == -1, "no replica may lead")
        if len(self.losers) < len(self.nodes):
            self.violate(f"only {self.losers} have lost records")
        await self.new_process("operator").run(self._elect())
        await self.until(self.in_sync, "all brokers are in sync")
        after = Instance(self, "after", "after")
        await after.start()
        await after.transaction(self.shared_partitions)
        await after.end()

    async def _elect(self) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.elect_leaders(ElectionType.UNCLEAN)

    async def check(self) -> None:
        """Check that no log has a torn or duplicated batch, and that no replicas differ."""
        await self.healed()
        ClusterJudgement(self).compare_replicas()
        for node in self.up():
            for violation in check_files(logs_on(node.disk, node.broker), lossy=True):
                self.violate(f"{node.host}: {violation}")


class EmptyLastLeader(Stage):
    """All brokers lose their power, and the leader of a partition its disk. It comes back first,
    and is killed again before it has fetched anything. The others have every record."""

    async def act(self) -> None:
        await self.create_internal_topics()
        writer = Instance(self, "writer", "w")
        await writer.start()
        await self.until(self.in_sync, "all brokers are in sync")
        for _ in range(TRANSACTIONS):
            await writer.transaction(self.shared_partitions)
        await writer.end()
        await self.until(self._is_flushed, "everything is on the disks")
        node = self.nodes[self.leader_of(LOG)]
        for other in self.nodes.values():
            self.kill(other, 0 if other is node else 5 * SECOND_US, power=True)
        self.replace_disk(node)
        await self.until(lambda: node.is_up, "the empty broker is up")
        self.kill(node, 1_000)
        await self.until(lambda: len(self.up()) == len(self.nodes), "all brokers are up")
        await self.until(self._waits, "no replica may lead")
        await self.new_process("operator").run(self._elect())
        if self.leader_of(LOG) == node.broker_id:
            self.violate("the empty replica leads")
        await self.until(self.in_sync, "all brokers are in sync")

    def _is_flushed(self) -> bool:
        return all(
            partition.recovery_point == partition.log_end_offset
            for node in self.nodes.values()
            for partition in node.broker.partitions
        )

    def _waits(self) -> bool:
        record = self.rules.metadata.partitions[LOG]
        return record.leader == -1 and not record.elr

    async def _elect(self) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.elect_leaders(ElectionType.UNCLEAN)


@pytest.mark.parametrize("seed", range(4))
def test_b10_a_last_leader_with_a_new_disk_leads_only_if_no_other_can(seed: int) -> None:
    play(EmptyLastLeader, replace(OPTIONS, flush_ms=100), seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_s13_without_flushes_a_power_loss_of_all_brokers_tears_and_splits_no_log(
    seed: int,
) -> None:
    play(PowerLossOfAll, seed=seed)
