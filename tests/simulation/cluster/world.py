"""The world of one seed with a cluster: brokers, an etcd, clients, and their faults."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Final

from oncelog_server.broker import Broker
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.partition.partition import Partition
from tests.simulation.base_world import BaseWorld
from tests.simulation.broker_settings import settings_of
from tests.simulation.cluster.exit_monitor import SimExitMonitor
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.member_node import MemberNode, host_of
from tests.simulation.cluster.options import SESSION_MS, ClusterOptions
from tests.simulation.cluster.rules import MIN_ISR, Rules
from tests.simulation.cluster.watched import watched
from tests.simulation.etcd.processes import PORT, EtcdProcesses
from tests.simulation.fault import Fault
from tests.simulation.inspection import EVERY_US, inspect_running
from tests.simulation.log_capture import LogCapture
from tests.simulation.loop import SimLoop
from tests.simulation.observation import observe_death
from tests.simulation.process import Process
from tests.simulation.workloads.append import Append
from tests.simulation.workloads.client import Client
from tests.simulation.workloads.copy import Copy
from tests.simulation.workloads.group_commit import GroupCommit
from tests.simulation.workloads.money import Money
from tests.simulation.workloads.plain import Feeder, Plain
from tests.simulation.workloads.reader import Reader

KINDS: Final[dict[str, type[Client]]] = {
    workload.kind: workload
    for workload in (Append, Copy, Feeder, GroupCommit, Money, Plain, Reader)
}
REPLICAS: Final = 3
# The first start of a cluster, and a start after all faults have ended, take less.
TIMEOUT_S: Final = 30.0
# The time that clients have after the last fault. A link notices after 30 s that its connection has
# vanished. The links of markers, of added partitions and of a fetcher may do so one after the
# other.
CLIENTS_S: Final = 180.0


class ClusterWorld(BaseWorld):
    """A world with a cluster. After `live`, `ClusterJudgement` makes the final checks."""

    options: ClusterOptions

    def __init__(
        self, seed: int, options: ClusterOptions, loop: SimLoop, capture: LogCapture
    ) -> None:
        super().__init__(seed, options, loop, capture)
        self._by_process: dict[Process, MemberNode] = {}
        self.etcd = EtcdProcesses(self.new_process, options.etcd_members, loop=loop)
        self.ids = range(1, options.brokers + 1)
        self.bootstrap = ",".join(f"{host_of(id)}:9092" for id in self.ids)
        self.nodes = {id: self._new_node(id) for id in self.ids}
        self.rules = Rules(self, self.etcd.etcd.state.kv)
        self._is_stopping = False

    def _new_node(self, broker_id: int) -> MemberNode:
        options = self.options
        rng = self.rng(f"broker {broker_id}")
        endpoints = ",".join(f"http://etcd-{n + 1}:{PORT}" for n in range(options.etcd_members))
        assignments = (
            f"node.id={broker_id}",
            f"listeners=PLAINTEXT://{host_of(broker_id)}:9092",
            f"oncelog.etcd.endpoints={endpoints}",
            f"broker.session.timeout.ms={SESSION_MS}",
            f"broker.heartbeat.interval.ms={options.heartbeat_ms}",
            f"replica.lag.time.max.ms={options.lag_ms}",
            f"replica.fetch.wait.max.ms={options.fetch_wait_ms}",
            "replica.fetch.backoff.ms=50",
            f"min.insync.replicas={MIN_ISR}",
            f"transaction.state.log.min.isr={MIN_ISR}",
            "leader.imbalance.check.interval.seconds=2",
            # Each replica compacts by itself, so compacted logs differ.
            "log.cleaner.enable=false",
        )
        settings = settings_of(options, assignments)
        node = MemberNode(
            broker_id,
            self.loop,
            rng,
            settings,
            self.new_process,
            partial(self._new_exit_monitor, host_of(broker_id), self.rng(f"monitor {broker_id}")),
        )
        drift_ppm = rng.choice((0, options.drift_ppm, -options.drift_ppm))
        node.clock = type(node.clock)(self.loop, drift_ppm)
        node.on_death = self._broker_died
        return node

    def _new_exit_monitor(self, host: str, rng: Random) -> SimExitMonitor:
        return SimExitMonitor(
            self.etcd.etcd.state,
            rng,
            self.options.exit_monitors,
            after=self.after,
            reaches_etcd=lambda: (
                not any(
                    self.net.cuts.has(host, member) or self.net.cuts.has(member, host)
                    for member in self.etcd.hosts
                )
            ),
            ended=lambda: self.sometimes.met("an exit monitor has ended a registration"),
        )

    # --- for rules, faults and checks

    def node_of(self, process: Process) -> MemberNode | None:
        """Return the broker with this process, None if it is another process."""
        return self._by_process.get(process)

    def up(self) -> list[MemberNode]:
        """Return the brokers that are up. They may be paused."""
        return [node for node in self.nodes.values() if node.is_up]

    def _broker_died(self, broker: Broker) -> None:
        if not self._is_stopping:
            observe_death(self, broker)

    def new_process(self, name: str) -> Process:
        process = super().new_process(name)
        if name.startswith("broker-"):
            self._by_process[process] = self.nodes[int(name.removeprefix("broker-"))]
        return process

    # --- starts and stops

    def restart_after(self, node: MemberNode, delay_us: int, *, stop: bool = False) -> None:
        """Start a broker again after this time. With `stop`, stop it first. Otherwise it is down
        already."""
        if not node.is_restarting:
            node.is_restarting = True
            self.background(self._restart(node, delay_us, stop=stop))

    async def _restart(self, node: MemberNode, delay_us: int, *, stop: bool) -> None:
        if stop:
            node.resume()
            await self.stop(node)
        await asyncio.sleep(delay_us / 1e6)
        # A computer without power is silent. Now its kernel responds again.
        self.net.cuts.remove(node.silence)
        node.silence = []
        await self._start_until_up(node)
        node.is_restarting = False

    async def stop(self, node: MemberNode) -> None:
        """Stop a broker cleanly, then end its process."""
        try:
            await node.stop()
        except OSError as error:
            self.sometimes.met(f"stop failed: {type(error).__name__}")
        self._is_stopping = True
        node.kill()
        self._is_stopping = False

    async def _start_until_up(self, node: MemberNode) -> None:
        attempts = 0
        while True:
            try:
                if await node.start():
                    return
            except Exception as error:
                self.sometimes.met(f"start refused: {type(error).__name__}")
                attempts += self.is_healed
                if attempts > 20:
                    self.violate(f"{node.host} does not start: {error!r}")
                    raise
            await asyncio.sleep(0.1)

    # --- the run

    async def live(self, faults: list[Fault]) -> None:
        """Run the world from the first start to the end of the last client, with all faults."""
        with watched(self.moved, self.leads):
            await self._live(faults)

    def moved(self, partition: Partition, before: int | None) -> None:
        """Check a high watermark right after its move."""
        self.rules.moved(partition, before)

    def leads(self, partition: Partition, before: bool | None) -> None:
        """Check a broker that begins or ceases to lead."""
        self.rules.leads(partition, before)

    async def _live(self, faults: list[Fault]) -> None:
        await self.etcd.start()
        async with asyncio.timeout(TIMEOUT_S):
            async with asyncio.TaskGroup() as starts:
                for node in self.nodes.values():
                    starts.create_task(self._start_until_up(node))
            await self._create_topics()
        await self.work(faults)
        self.heal()

    async def work(self, faults: list[Fault]) -> None:
        """Run all clients and faults in a cluster with its topics."""
        self._make_clients()
        lives = self.start_clients()
        acting = ClusterFaults(self)
        for fault in faults:
            self.after(fault.at_us, partial(acting.inflict, fault))
        self.after(EVERY_US, self._inspect)
        horizon_us = self.options.periods * self.options.period_us
        self.after(horizon_us + 2_000_000, self.heal)
        # After this time, clients stop even if their work is not done.
        self.after(horizon_us + 25_000_000, lambda: setattr(self, "is_late", True))
        await self.until_clients_end(lives, horizon_us / 1e6 + CLIENTS_S)

    async def _create_topics(self) -> None:
        first = self.nodes[1]
        while True:
            if self._know_each_other():
                break
            await asyncio.sleep(0.05)
        count = self.options.topic_partitions
        topics = [NewTopic(name, count, REPLICAS) for name in ("a", "in", "out")]
        assert first.process is not None
        await first.process.run(first.broker.metadata.create_topics(topics))

    def _know_each_other(self) -> bool:
        images = [node.broker.metadata.image for node in self.up()]
        return all(len(image.brokers) == len(self.nodes) for image in images)

    def _make_clients(self) -> None:
        counts = dict(self.options.workloads)
        if counts.get("copy"):
            counts["feeder"] = 1
        for kind in sorted(counts):
            for number in range(counts[kind]):
                self.clients.append(KINDS[kind](self, f"{kind}-{number}"))

    def _inspect(self) -> None:
        for node in self.up():
            inspect_running(self, node)
        if not self.is_healed:
            self.after(EVERY_US, self._inspect)

    def heal(self) -> None:
        """End all faults, and start what has failed."""
        if self.is_healed:
            return
        self.healing.set()
        self.net.weather.clogging = self.net.weather.segmentation = 0.0
        self.net.cuts.clear()
        self.net.refusals.clear()
        self.etcd.end_faults()
        for node in self.nodes.values():
            node.disk.trap = None
            node.disk.weather = type(node.disk.weather)()
            node.clock.unfreeze_wall()
            node.clock.wall_offset_ms = 0
            node.resume()
        self.resume_clients()

    async def healed(self) -> None:
        """Wait until all brokers are up and no fault will end them."""
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.up()) < len(self.nodes) or any(
                node.is_restarting for node in self.nodes.values()
            ):
                self.raise_failures()
                await asyncio.sleep(0.01)
