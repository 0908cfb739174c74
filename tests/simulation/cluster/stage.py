"""A cluster with a script: its brokers, its etcd, and clients that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from oncelog_server.cluster import records
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.partition.partition import Partition
from tests.simulation.checking.logs import PartitionLog, TopicPartition
from tests.simulation.cluster.judgement import ClusterJudgement
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.metadata import PREFIX
from tests.simulation.cluster.options import ClusterOptions
from tests.simulation.cluster.watched_disk import WatchedDisk
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.cuts import Cut, both_ways
from tests.simulation.disk import Loss
from tests.simulation.fault import Fault
from tests.simulation.loop import Scheduling
from tests.simulation.process import CURRENT, Killed
from tests.simulation.run import Verdict, judged

SECOND_US: Final = 1_000_000
STEP_S: Final = 0.01
# The number of the brokers' log events that a failed test shows.
SHOWN_EVENTS: Final = 20
# Longer than three sessions of a broker.
PATIENCE_S: Final = 30.0
OPTIONS: Final = ClusterOptions(
    scheduling=Scheduling.FIFO,
    step_us=5,
    flush_on_ack=False,
    latency_us=(200, 2_000),
    segmentation=0.0,
    coalescing=0.5,
    clogging=0.0,
    small_window=False,
    replaying=0.0,
    replay_after_us=(100, 1_000),
    drift_ppm=0,
    segment_bytes=1 << 20,
    index_interval_bytes=200,
    transaction_partitions=3,
    offsets_partitions=3,
    topic_partitions=3,
    transaction_timeout_ms=60_000,
    checkpoint_ms=2_000,
    flush_ms=None,
    cleaner_backoff_ms=500,
    cleanable_ratio=0.5,
    periods=1,
    period_us=SECOND_US,
    faults_per_period=1,
    kinds=(),
    damage=0.0,
    loss_ordered=False,
    loss_holes=0.3,
    workloads={},
    transactions=0,
    delivery_timeout_ms=60_000,
    max_block_ms=60_000,
)


class Stage(ClusterWorld):
    """A cluster with a script, `act`. After it, all faults end, and the final checks of every
    cluster are made."""

    def _new_node(self, broker_id: int) -> MemberNode:
        node = super()._new_node(broker_id)
        node.disk = self._new_disk(broker_id)
        return node

    def _new_disk(self, broker_id: int) -> WatchedDisk:
        return WatchedDisk(Random(f"{self.seed}/disk {broker_id}"), self.loop.mix)

    def replace_disk(self, node: MemberNode) -> None:
        """Give a broker that is down an empty disk."""
        node.disk = self._new_disk(node.broker_id)
        self.rules.replace_disk(node)

    async def work(self, faults: list[Fault]) -> None:
        await self.act()

    async def act(self) -> None:
        """Run the script of the test. It runs outside of all simulated processes."""
        raise NotImplementedError

    async def check(self) -> None:
        """Make the final checks."""
        self.judge(await ClusterJudgement(self).pass_on())

    def judge(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Check the logs of all partitions, after the final checks of every cluster."""

    # --- the cluster

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.raise_failures()
                await asyncio.sleep(STEP_S)
        self.sometimes.met(what)

    def leader_of(self, log: str) -> int:
        """Return the broker that leads a partition (`a-0`) by the metadata, -1 if it has none."""
        record = self.rules.metadata.partitions.get(log)
        return -1 if record is None else record.leader

    def replica(self, broker_id: int, log: str) -> Partition:
        """Return a replica of a partition."""
        for partition in self.nodes[broker_id].broker.partitions:
            if str(partition.topic_partition) == log:
                return partition
        raise KeyError(f"broker {broker_id} has no {log}")

    def transaction_log(self, transactional_id: str) -> str:
        count = self.options.transaction_partitions
        return f"{TRANSACTION_STATE}-{partition_for(transactional_id, count)}"

    def offsets_log(self, group_id: str) -> str:
        count = self.options.offsets_partitions
        return f"{CONSUMER_OFFSETS}-{partition_for(group_id, count)}"

    def in_sync(self) -> bool:
        """Return True if all brokers are in all ISRs, and the first replicas lead."""
        records = self.rules.metadata.partitions
        return len(self.up()) == len(self.nodes) and all(
            len(record.isr) == len(record.replicas) and record.leader == record.replicas[0]
            for record in records.values()
        )

    async def finalize(self, feature: str, level: int) -> None:
        """Set the level of a feature. Return when all brokers know it."""
        value = records.encode(records.FeaturesRecord({feature: level}))
        self.etcd.etcd.state.put(PREFIX + records.FEATURES.encode(), value)
        known = [node.broker.metadata for node in self.up()]
        await self.until(
            lambda: all(metadata.image.features.get(feature) == level for metadata in known),
            f"all brokers know {feature} {level}",
        )

    async def create_internal_topics(self) -> None:
        node = self.nodes[1]
        assert node.process is not None
        for name in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            await node.process.run(node.broker.metadata.missing_topics.create_one(name))

    # --- faults

    def kill(self, node: MemberNode, for_us: int, *, power: bool = False) -> None:
        """Kill a broker for this time, or cut its power. A broker that calls this itself, for
        example in an operation of its disk, does nothing more."""
        node.kill()
        if power:
            # The loss follows this callback, which may be in the middle of an operation of the
            # disk.
            self.loop.call_soon(self._lose_power, node, context=self.context)
        self.restart_after(node, for_us)
        if CURRENT.get() is node.process:
            raise Killed

    def _lose_power(self, node: MemberNode) -> None:
        options = self.options
        loss = Loss(ordered=options.loss_ordered, holes=options.loss_holes)
        node.lose_power(loss, self.rules.metadata.revision)

    def pause(self, node: MemberNode, for_us: int) -> None:
        """Stop a broker in the middle of its turn, and let it continue after this time. The bytes
        that it writes in the rest of the turn leave when it continues."""
        silence = [Cut(frozenset([node.host]), None)]
        self.net.cuts.add(silence)
        node.pause()

        def resume() -> None:
            self.net.cuts.remove(silence)
            node.resume()

        self.after(for_us, resume)

    def cut(self, first: MemberNode, second: MemberNode, for_us: int) -> None:
        """Cut the network between two brokers for this time."""
        cuts = both_ways([first.host], [second.host])
        self.net.cuts.add(cuts)
        self.after(for_us, lambda: self.net.cuts.remove(cuts))


def play(stage: Callable[..., Stage], options: ClusterOptions = OPTIONS, seed: int = 1) -> Verdict:
    """Run a script, make the final checks, and fail the test if there is a violation. `stage` makes
    the world from the arguments of a ClusterWorld."""

    async def whole(world: Stage) -> None:
        await world.live([])
        await world.check()

    verdict = judged(
        seed, options, [], lambda loop, capture: stage(seed, options, loop, capture), whole
    )
    assert not verdict.failed, "\n".join([*verdict.events[-SHOWN_EVENTS:], *verdict.violations])
    return verdict
