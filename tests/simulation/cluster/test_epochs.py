"""The epochs of transactional ids when coordinators are lost, also at the last epoch of a producer
id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH
from tests.simulation.aging import skip_to
from tests.simulation.checking.internal_records import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    Transition,
)
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import Moment, Place, Point
from tests.simulation.cluster.instance import Instance
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.raw_client import RawClient
from tests.simulation.cluster.stage import OPTIONS, play
from tests.simulation.cluster.transaction_stage import AWAY_US, ID, TransactionStage

Logs = Mapping[tuple[str, int], PartitionLog]

INSTANCES: Final = 20
UNREPLICATED_US: Final = 200_000
# With exit monitors the next coordinator is elected at once, so that fewer requests are repeated.
PROMPT: Final = replace(OPTIONS, exit_monitors=1.0)


class ConcurrentInstances(TransactionStage):
    """Twenty instances initialize an id at once. The followers of the coordinator do not get the
    tenth epoch, and the coordinator dies some time later."""

    point = Point("tenth", Moment.APPENDED, Place.TRANSACTIONS, 10, "")

    async def act(self) -> None:
        await self.prepare()
        instances = [Instance(self, f"instance-{number}", ID) for number in range(INSTANCES)]
        started: list[int] = []
        started_before: list[int] = []

        async def start(number: int) -> None:
            await instances[number].start()
            started.append(number)

        def kill(coordinator: MemberNode) -> None:
            started_before.extend(started)
            self.kill(coordinator, AWAY_US)

        def strike(log: str) -> None:
            coordinator = self.leader(log)
            for node in self.nodes.values():
                if node is not coordinator:
                    self.cut(coordinator, node, 2 * UNREPLICATED_US)
            self.after(UNREPLICATED_US, partial(kill, coordinator))

        self.arm(self.point, strike)
        async with asyncio.TaskGroup() as together:
            for number in range(INSTANCES):
                together.create_task(start(number))
        if not 0 < len(started_before) < INSTANCES:
            self.violate(f"{len(started_before)} instances had started when the coordinator died")
        identities = [instance.identity for instance in instances]
        if len({*identities}) < INSTANCES:
            self.violate(f"an epoch was given twice: {sorted(identities)}")
        last = max(range(INSTANCES), key=lambda number: identities[number])
        for number in (*range(last), *range(last + 1, INSTANCES)):
            if not await instances[number].is_fenced(self.places[0]):
                self.violate(f"instance {number} of {identities} is not fenced")
        await instances[last].transaction(self.places)
        await self.until(self.in_sync, "all brokers are in sync")
        for instance in (*instances, self.first):
            await instance.end()


def test_z8_only_the_last_of_twenty_instances_may_write_though_the_coordinator_has_died() -> None:
    play(ConcurrentInstances, PROMPT)


class AtLastEpoch(TransactionStage):
    """The first instance has the last epoch of its producer id."""

    async def prepare(self) -> None:
        await self.create_internal_topics()
        forerunner = Instance(self, "forerunner", ID)
        await forerunner.start()
        await forerunner.end()
        await self.until(self.in_sync, "all brokers are in sync")
        node = self.nodes[self.leader_of(self.transaction_log(ID))]
        assert node.process is not None
        await node.process.run(skip_to(node.broker, ID, LAST_PRODUCER_EPOCH - 1))
        await super().prepare()
        if self.first.identity[1] != LAST_PRODUCER_EPOCH:
            self.violate(f"the first instance is {self.first.identity}")


class LostNextIdOfPrepare(AtLastEpoch):
    """The coordinator dies after the PREPARE, which has the next producer id."""

    point = Point("prepared", Moment.COMMITTED, Place.TRANSACTIONS, 5, "")

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        log = self.logs.transactions
        next_ids: list[int] = []

        def strike(log: str) -> None:
            node = self.leader(log)
            next_ids.append(self.found(node).next_producer_id)
            self.kill(node, AWAY_US)

        self.arm(self.point, strike)
        await self.run_first()

        def completed() -> bool:
            leader = self.leader_of(log)
            return leader >= 0 and self.found(self.nodes[leader]).state == COMPLETE_COMMIT

        await self.until(completed, "the next coordinator has completed the transaction")
        found = self.found(self.nodes[self.leader_of(log)])
        if [found.producer_id] != next_ids or next_ids == [-1]:
            self.violate(f"the producer id is {found.producer_id}, PREPARE has {next_ids}")
        await self.run_second()

    def judge(self, logs: Logs) -> None:
        self.check_outcome(logs, committed=True)


def test_e4_the_next_coordinator_gives_the_producer_id_that_the_prepare_has() -> None:
    play(LostNextIdOfPrepare)


class LostNextId(AtLastEpoch):
    """The producer requests its next epoch. The coordinator dies when the next producer id is on
    all replicas, and before it responds."""

    point = Point("renewed", Moment.COMMITTED, Place.TRANSACTIONS, 1, "")

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        found: list[tuple[int, int]] = []

        def strike(log: str) -> None:
            found.append(self.found(self.leader(log)).owner)
            self.kill(self.leader(log), AWAY_US)

        self.arm(self.point, strike)
        client = RawClient(self, "raw")
        identity = await client.initialize(ID, self.first.identity)
        # Another retry, as if the client had lost the response again.
        again = await client.initialize(ID, self.first.identity)
        if found != [identity] or identity != again:
            self.violate(f"{found} was on all replicas, the producer got {identity}, {again}")
        if identity[0] == self.first.identity[0] or identity[1]:
            self.violate(f"{self.first.identity} became {identity}")
        await client.end()
        await self.second.start()
        await self.second.transaction(self.places)
        refusal = await self.first.refusal(self.places[0])
        if refusal is None or refusal.code is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            self.violate(f"the previous producer id got {refusal!r}")
        await self.until(self.in_sync, "all brokers are in sync")
        await self.first.end()
        await self.second.end()

    def judge(self, logs: Logs) -> None:
        for number, place in enumerate(self.places):
            values = [int(record.value or b"") for record in logs[place].committed_records()]
            if values != [self.second.values[number]]:
                self.violate(f"{place} has {values}")


def test_e5_the_next_producer_id_is_given_again_after_its_coordinator_has_died() -> None:
    play(LostNextId)


class KeptAtLastEpoch(AtLastEpoch):
    """A prepared transaction has the last epoch of its producer id. A second instance keeps the
    transaction prepared, and gets another producer id. The coordinator dies when this record is on
    all replicas, and before it responds. The next coordinator dies in the same way when the
    decision of the second instance is on all replicas."""

    kept = Point("kept", Moment.COMMITTED, Place.TRANSACTIONS, 4, "")
    decided = Point("decided", Moment.COMMITTED, Place.TRANSACTIONS, 1, "")

    def __init__(self, *world: Any) -> None:
        super().__init__(*world)
        self.first = Instance(self, "first", ID, two_phase=True)
        self.second = Instance(self, "second", ID, two_phase=True)
        self.struck: list[Transition] = []

    def _new_node(self, broker_id: int) -> MemberNode:
        node = super()._new_node(broker_id)
        node.settings = replace(node.settings, transaction_two_phase_commit_enable=True)
        return node

    def _strike(self, log: str) -> None:
        self.struck.append(self.found(self.leader(log)))
        self.kill(self.leader(log), AWAY_US)

    async def act(self) -> None:
        await self.prepare()
        self.arm(self.kept, self._strike)
        await self.first.open(self.places)
        prepared = await self.first.prepare()
        await self.second.start(keep_prepared=True)
        await self.until(self.in_sync, "all brokers are in sync")
        self.logs = self._logs()
        self.arm(self.decided, self._strike)
        await self.second.complete(prepared)
        self._check_struck()
        await self.until(self.in_sync, "all brokers are in sync")
        await self.second.transaction(self.places)
        await self.first.end()
        await self.second.end()

    def _check_struck(self) -> None:
        """Check the states in which the two coordinators died."""
        states = [transition.state for transition in self.struck]
        if states != [ONGOING, PREPARE_COMMIT]:
            self.violate(f"the coordinators died in {self.struck}")
        for transition in self.struck:
            if transition.producer_id != self.first.identity[0]:
                self.violate(f"{transition} is not the transaction of {self.first.identity}")
        if self.struck[0].next_producer_id != self.second.identity[0]:
            self.violate(f"{self.struck[0]} was kept, the second one is {self.second.identity}")

    def judge(self, logs: Logs) -> None:
        for number, place in enumerate(self.places):
            wanted = [self.first.values[number], self.second.values[number]]
            values = [int(record.value or b"") for record in logs[place].committed_records()]
            if values != wanted:
                self.violate(f"{place} has {values}, not {wanted}")
            markers = [batch for batch in logs[place].batches if batch.marker is not None]
            if len(markers) != 2 or markers[0].producer_id != self.first.identity[0]:
                self.violate(f"{place} has the markers {markers}")


def test_w5_a_decision_at_the_last_epoch_reaches_the_first_producer_id_over_two_fail_overs() -> (
    None
):
    play(KeptAtLastEpoch)
