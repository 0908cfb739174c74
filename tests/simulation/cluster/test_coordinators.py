"""Coordinators that lose their brokers, their leases, their disks or their view of the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from oncelog_client import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.cluster import records
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.results import TransactionResult
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import Moment, Place, Point
from tests.simulation.cluster.held_loads import HeldLoads
from tests.simulation.cluster.instance import Instance
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.metadata import PREFIX
from tests.simulation.cluster.stage import OPTIONS, SECOND_US, Stage, play
from tests.simulation.cluster.transaction_stage import AWAY_US, ID, TransactionStage
from tests.simulation.cuts import both_ways
from tests.simulation.workloads.reader import Reader

PREPARED: Final = Point("prepared", Moment.COMMITTED, Place.TRANSACTIONS, 5, "")
ANSWERED: Final = Point("answered", Moment.ANSWERED, Place.TRANSACTIONS, 5, "")
ATTEMPTS: Final = 50


class BelowMinIsr(TransactionStage):
    """The log of the coordinator is below its min ISR while an id is initialized again and
    again."""

    # The code of each initialization, None if its response is parked.
    codes: list[ErrorCode | None]

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        node = self.leader(self.logs.transactions)
        before = self.found(node).epoch
        self.codes = []
        for other in self.nodes.values():
            if other is not node:
                self.kill(other, 4 * SECOND_US)
        log = self.logs.transactions
        partitions = self.rules.metadata.partitions
        await self.until(lambda: partitions[log].isr == (node.broker_id,), "the ISR has shrunk")
        led = self.replica(node.broker_id, log)
        await self.until(lambda: led.replicas.is_under_min_isr, "the leader knows its ISR")
        assert node.process is not None
        await node.process.run(self._initialize(node.broker))
        if self.codes != [ErrorCode.COORDINATOR_NOT_AVAILABLE] * ATTEMPTS:
            self.violate(f"the initializations got {self.codes}")
        await self.until(self.in_sync, "all brokers are in sync")
        await self.second.start()
        after = self.found(node).epoch
        if after > before + 2:
            self.violate(f"epoch {before} became {after}")
        await self.second.transaction(self.places)
        await self.first.end()
        await self.second.end()

    async def _initialize(self, broker: Broker) -> None:
        for _ in range(ATTEMPTS):
            result = broker.transactions.init_producer_id(InitProducerId(ID, 60_000))
            self.codes.append(result.code if isinstance(result, TransactionResult) else None)


def test_t8_initializations_below_the_min_isr_use_up_no_epochs() -> None:
    play(BelowMinIsr)


class LostLease(TransactionStage):
    """The lease of the next coordinator ends in the middle of its load, and the load ends after
    another broker has taken over."""

    has_lost = False

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        first = self.leader(self.logs.transactions)
        others = [node for node in self.nodes.values() if node is not first]
        self.held = {node: HeldLoads(node, node.broker.transactions.runtime) for node in others}
        self.arm(PREPARED, lambda log: self.kill(first, AWAY_US))
        self.background(self._lose_lease(first))
        await self.run_first()
        await self.run_second()
        if not self.has_lost:
            self.violate("no lease has ended")

    async def _lose_lease(self, first: MemberNode) -> None:
        assert self.logs is not None
        log = self.logs.transactions
        index = int(log.rpartition("-")[2])
        await self.until(lambda: self.leader_of(log) not in (first.broker_id, -1), "another leads")
        second = self.nodes[self.leader_of(log)]
        await self.until(lambda: self.held[second].of(index), "the load has begun")
        await self.held[second].of(index)[0].advance(1)
        self._end_lease(second)
        await self.until(lambda: self.leader_of(log) not in (second.broker_id, -1), "a third leads")
        if self.held[second].of(index)[0].has_ended:
            self.violate("the load has ended before the lease")
        for loads in self.held.values():
            await loads.release()
        if second.broker.transactions.runtime.is_loaded(index):
            self.violate("the load has put a shard in service")
        self.has_lost = True

    def _end_lease(self, node: MemberNode) -> None:
        state = self.etcd.etcd.state
        key = PREFIX + f"{records.BROKERS}{node.broker_id}".encode()
        (lease,) = [lease for lease in state.leases.all() if key in lease.keys]
        state.end_lease(lease.id)

    def judge(self, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
        self.check_outcome(logs, committed=True)


def test_b15_a_coordinator_whose_lease_ends_during_its_load_decides_nothing_twice() -> None:
    play(LostLease)


class StaleImage(TransactionStage):
    """The coordinator does not see that a partition has another leader."""

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        log = self.logs.data[0]
        coordinator, leader = self.leader(self.logs.transactions), self.leader(log)
        self.arm(ANSWERED, lambda _: None)
        await self.run_first()
        cuts = both_ways([coordinator.host], self.etcd.hosts)
        self.net.cuts.add(cuts)
        # The cut is shorter than the coordinator's session.
        self.after(SECOND_US, lambda: self.net.cuts.remove(cuts))
        self.restart_after(leader, 2 * SECOND_US, stop=True)
        await self.until(lambda: self.leader_of(log) not in (leader.broker_id, -1), "moved")
        known = coordinator.broker.metadata.image.topics[self.places[0].topic]
        if known.partitions[self.places[0].partition].leader != leader.broker_id:
            self.violate("the coordinator knows the next leader")
        self.release_markers()
        await self.run_second()

    def judge(self, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
        self.check_outcome(logs, committed=True)


def test_n11_a_marker_gets_to_the_next_leader_though_the_coordinator_knows_only_the_last() -> None:
    # With this seed the coordinator is not the controller, which elects the next leader.
    play(StaleImage, seed=3)


class ManyTransactions(Stage):
    """A leader dies with twenty open and twenty decided transactions, while a reader reads."""

    async def act(self) -> None:
        await self.create_internal_topics()
        place = TopicPartition("a", 0)
        instances = [Instance(self, f"writer-{number}", f"w-{number}") for number in range(40)]
        for instance in instances:
            await instance.start()
        await self.until(self.in_sync, "all brokers are in sync")
        self.clients.append(Reader(self, "reader"))
        lives = self.start_clients()
        for number, instance in enumerate(instances):
            if number % 2:
                await instance.open([place])
            else:
                await instance.transaction([place], committed=number % 4 == 0)
        leader = self.leader_of("a-0")
        opened = list(self.replica(leader, "a-0").open_transactions())
        if len(opened) != len(instances) // 2:
            self.violate(f"the leader dies with {len(opened)} open transactions")
        self.kill(self.nodes[leader], AWAY_US)
        await self.until(lambda: self.leader_of("a-0") not in (leader, -1), "another leads")
        for instance in instances[1::2]:
            await instance.commit()
        await self.until(self.in_sync, "all brokers are in sync")
        self.is_late = True
        await self.until_clients_end(lives, 30.0)
        for instance in instances:
            await instance.end()


def test_l10_a_reader_sees_no_open_and_no_aborted_record_over_a_fail_over() -> None:
    play(ManyTransactions, replace(OPTIONS, transactions=10_000))
