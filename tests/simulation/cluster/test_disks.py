"""Damaged, failing and full disks of one broker of a cluster, and power losses of all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from oncelog_client import Admin, NewTopic, Producer, TopicPartition
from oncelog_client.admin import ElectionType
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


class FlippedBit(Written):
    """A bit of a middle segment flips while a broker is down after a kill."""

    of_leader = False

    async def fail(self) -> None:
        node = self.leader if self.of_leader else self.follower
        node.kill()
        logs = [path for path in sorted(node.disk.names.files) if path.startswith(f"{LOG}/")]
        segments = [path for path in logs if path.endswith(".log")]
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
    """The disk of a leader is full until other brokers have led for a while."""

    async def fail(self) -> None:
        node = self.leader
        node.disk.weather.full = True
        await self.writer.transaction([PLACE])
        if not node.disk.failures["full"]:
            self.violate("nothing was refused")
        if self.leader_of(LOG) == node.broker_id:
            self.violate("the broker with the full disk leads")
        await self.write()
        node.disk.weather.full = False


def test_d1_other_brokers_lead_while_the_disk_of_a_leader_is_full() -> None:
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
    """A topic is deleted and created again while a replica is away with its old records."""

    async def fail(self) -> None:
        node = self.follower
        self.kill(node, 5 * SECOND_US)
        self.recreated.add("out")
        await self.new_process("operator").run(self._recreate())
        await self.writer.transaction([OTHER])
        await self.until(lambda: node.is_up, "the broker is back")

    async def _recreate(self) -> None:
        async with Admin(self.bootstrap) as admin, Producer(self.bootstrap) as producer:
            await producer.send_and_wait("out", b"old", partition=0)
            await admin.delete_topics(["out"])
            await admin.create_topics([NewTopic("out", self.options.topic_partitions, 3)])


def test_b18_a_replica_that_was_away_has_no_record_of_the_deleted_topic() -> None:
    play(RecreatedTopic)


class PowerLossOfAll(Stage):
    """All brokers lose their power at once, and with it records that were acknowledged before they
    were on disk. No broker knows whether it has lost some, so an operator lets any of them lead."""

    async def live(self, faults: list[Fault]) -> None:
        # The rules of replication do not hold: records that were committed are lost.
        await self._live(faults)

    async def act(self) -> None:
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
        """Check that no log has a torn or doubled batch, and that no replicas differ."""
        await self.healed()
        ClusterJudgement(self).compare_replicas()
        for node in self.up():
            for violation in check_files(logs_on(node.disk, node.broker), lossy=True):
                self.violate(f"{node.host}: {violation}")


@pytest.mark.parametrize("seed", range(4))
def test_s13_without_flushes_a_power_loss_of_all_brokers_tears_and_splits_no_log(
    seed: int,
) -> None:
    play(PowerLossOfAll, seed=seed)
