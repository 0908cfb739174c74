"""Coordinators that load their shards for a long time, because another broker is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, islice
from typing import Any, Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_server.refusal import Refused
from tests.simulation.checking.internal_records import PREPARE_COMMIT
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import Moment, Place, Point
from tests.simulation.cluster.held_loads import HeldLoad, HeldLoads
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.raw_client import Identity, RawClient
from tests.simulation.cluster.stage import OPTIONS, Stage, play
from tests.simulation.cluster.transaction_stage import AWAY_US, TransactionStage
from tests.simulation.cuts import both_ways

Logs = Mapping[tuple[str, int], PartitionLog]

PREPARED: Final = Point("prepared", Moment.COMMITTED, Place.TRANSACTIONS, 5, "")
IDS: Final = 20


class LoadUnderRequests(Stage):
    """A coordinator dies, and clients send requests to the next one during its load."""

    async def act(self) -> None:
        await self.create_internal_topics()
        await self.until(self.in_sync, "all brokers are in sync")
        client = self.client = RawClient(self, "raw")
        log = self.transaction_log("t")
        self.identities = {id: await client.initialize(id) for id in self._ids_in(log)}
        first = self.nodes[self.leader_of(log)]
        others = [node for node in self.nodes.values() if node is not first]
        held = {node: HeldLoads(node, node.broker.transactions.runtime) for node in others}
        self.kill(first, AWAY_US)
        await self.until(lambda: self.leader_of(log) not in (first.broker_id, -1), "another leads")
        node = self.nodes[self.leader_of(log)]
        index = int(log.rpartition("-")[2])
        await self.until(lambda: held[node].of(index), "the load has begun")
        await self._check_loading(node, held[node].of(index)[0])
        for loads in held.values():
            await loads.release()
        await self.until(lambda: node.broker.transactions.runtime.is_loaded(index), "loaded")
        if (codes := await self._codes(node)) != {ErrorCode.NONE}:
            self.violate(f"after the load the codes are {codes}")
        for id in self.here:
            request = EndTxnRequest(id, *self.identities[id], False)
            await client.ask(log, request, EndTxnResponse, 4)
        await client.end()

    def _ids_in(self, log: str) -> list[str]:
        """Return ids with their states in this log, and one id in each other log. The ids of other
        logs matter because a broker that has served no id yet waits for the loads of all its
        shards."""
        logs = {self.transaction_log(id): id for id in map(str, range(100))}
        others = [id for other, id in logs.items() if other != log]
        here = (id for id in map("t-{}".format, count()) if self.transaction_log(id) == log)
        self.here = list(islice(here, IDS))
        return [*self.here, *others]

    async def _check_loading(self, node: MemberNode, load: HeldLoad) -> None:
        """Check the responses before the load's first step, and between any two of them."""
        steps = 0
        while not load.has_ended:
            if (codes := await self._codes(node)) != {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
                self.violate(f"after {steps} steps of the load the codes are {codes}")
                return
            await load.advance(4)
            steps += 4
        if steps < IDS:
            self.violate(f"the load had only {steps} steps")

    async def _codes(self, node: MemberNode) -> set[ErrorCode]:
        """Return the codes of some requests for each id."""
        responses = await asyncio.gather(
            *(self._added(node, id, self.identities[id]) for id in self.here),
            *(self._described(node, id) for id in self.here),
        )
        return {ErrorCode(code) for code in responses}

    async def _added(self, node: MemberNode, id: str, identity: Identity) -> int:
        topics = [AddPartitionsToTxnTopic(name="a", partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=id,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=topics,
        )
        response = await self.client.call(node.broker_id, request, AddPartitionsToTxnResponse, 3)
        (topic,) = response.results_by_topic_v3_and_below
        return topic.results_by_partition[0].partition_error_code

    async def _described(self, node: MemberNode, id: str) -> int:
        request = DescribeTransactionsRequest([id])
        response = await self.client.call(node.broker_id, request, DescribeTransactionsResponse, 0)
        return response.transaction_states[0].error_code


def test_ch_a_loading_coordinator_never_responds_with_a_part_of_its_state() -> None:
    play(LoadUnderRequests)


class RegainedInLoad(TransactionStage):
    """The next coordinator loses its leadership in the middle of its load, and regains it. The
    brokers are `first`, `second` and `third` by the order of their leadership."""

    def _new_node(self, broker_id: int) -> MemberNode:
        node = super()._new_node(broker_id)
        # The first broker does not lead again before the loads have ended.
        node.settings = replace(node.settings, leader_imbalance_check_interval_seconds=10)
        return node

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        self.index = int(self.logs.transactions.rpartition("-")[2])
        first = self.leader(self.logs.transactions)
        others = [node for node in self.nodes.values() if node is not first]
        self.held = {node: HeldLoads(node, node.broker.transactions.runtime) for node in others}
        self.loads: list[HeldLoad] = []
        self.arm(PREPARED, lambda log: self.kill(first, AWAY_US))
        self.background(self._move(first))
        await self.run_first()
        await self.run_second()

    async def _move(self, first: MemberNode) -> None:
        assert self.logs is not None
        second = await self._next_leader(first)
        self.loads += self.held[second].of(self.index)
        await self.loads[0].advance(1)
        cuts = both_ways([second.host], self.etcd.hosts)
        self.net.cuts.add(cuts)
        third = await self._next_leader(second)
        self.net.cuts.remove(cuts)
        partitions = self.rules.metadata.partitions
        log = self.logs.transactions
        await self.until(lambda: second.broker_id in partitions[log].isr, "in the ISR again")
        self.kill(third, AWAY_US)
        await self._next_leader(third)
        # The markers can be replicated, so that a coordinator sends them as soon as it is loaded.
        logs = self.logs.transactions, *self.logs.marked
        await self.until(
            lambda: all(len(partitions[name].isr) > 1 for name in logs), "min ISR again"
        )
        self.loads = self.held[second].of(self.index)
        if len(self.loads) != 2 or any(load.has_ended for load in self.loads):
            self.violate(f"{second.host} has begun {len(self.loads)} loads")
        await self.loads[0].finish()
        # If the first load were in service, the coordinator would send markers in this time.
        await asyncio.sleep(0.1)
        await self.held[second].release()

    async def _next_leader(self, last: MemberNode) -> MemberNode:
        """Return the next broker that begins to load the shard of the transaction."""
        assert self.logs is not None
        log = self.logs.transactions
        await self.until(lambda: self.leader_of(log) not in (last.broker_id, -1), "another leads")
        node = self.nodes[self.leader_of(log)]
        epoch = self.rules.metadata.partitions[log].leader_epoch
        loads = self.held[node]
        await self.until(
            lambda: [load for load in loads.of(self.index) if load.epoch == epoch], "loading"
        )
        return node

    def judge(self, logs: Logs) -> None:
        self.check_outcome(logs, committed=True)
        if [load.epoch - self.loads[0].epoch for load in self.loads] != [0, 2]:
            self.violate(f"the loads are of the epochs {[load.epoch for load in self.loads]}")
        for place in self.places:
            markers = [batch.marker for batch in logs[place].batches if batch.marker is not None]
            if len(markers) != 2 or markers[0] != (True, self.loads[1].epoch):
                self.violate(f"{place} has the markers {markers}")


def test_ci_the_first_load_of_a_coordinator_that_regains_its_leadership_is_discarded() -> None:
    play(RegainedInLoad, replace(OPTIONS, exit_monitors=1.0))


class MarkerDuringLoad(TransactionStage):
    """The coordinator of the group dies before the markers, and the next one gets the marker again
    and again while it loads."""

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        first = self.leader(self.logs.offsets)
        others = [node for node in self.nodes.values() if node is not first]
        self.held = {node: HeldLoads(node, node.broker.groups.runtime) for node in others}
        self.refused: list[ErrorCode] = []
        self.arm(PREPARED, lambda log: self.kill(first, AWAY_US))
        self.background(self._load(first))
        await self.run_first()
        await self.run_second()

    async def _load(self, first: MemberNode) -> None:
        assert self.logs is not None
        log = self.logs.offsets
        await self.until(lambda: self.leader_of(log) not in (first.broker_id, -1), "another leads")
        node = self.nodes[self.leader_of(log)]
        index = int(log.rpartition("-")[2])
        self._watch(node)
        await self.until(lambda: self.held[node].of(index), "the load has begun")
        self.refused.clear()
        await self.until(lambda: len(self.refused) >= 3, "three markers were refused")
        if self.found(self.leader(self.logs.transactions)).state != PREPARE_COMMIT:
            self.violate("the transaction is complete without its offsets")
        for loads in self.held.values():
            await loads.release()

    def _watch(self, node: MemberNode) -> None:
        """Note the markers of offsets that a broker refuses."""
        local = node.broker.services.local_markers
        find = local._offsets_marker

        def noted(index: int) -> Any:
            try:
                return find(index)
            except Refused as refused:
                self.refused.append(refused.code)
                raise

        local._offsets_marker = noted

    def judge(self, logs: Logs) -> None:
        self.check_outcome(logs, committed=True)
        assert self.logs is not None
        if {*self.refused} != {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self.violate(f"markers were refused with {self.refused}")
        topic, _, index = self.logs.offsets.rpartition("-")
        batches = logs[topic, int(index)].batches
        markers = [batch.marker for batch in batches if batch.marker is not None]
        if [committed for committed, _ in markers] != [True, True]:
            self.violate(f"{self.logs.offsets} has the markers {markers}")


def test_o8_a_loading_group_coordinator_refuses_markers_and_gets_them_again() -> None:
    play(MarkerDuringLoad)
