"""Transactional ids with tombstones that no other broker gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from oncelog_server.coordinator.shard import Decision
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.stage import SECOND_US, play
from tests.simulation.cluster.transaction_stage import AWAY_US, TransactionStage

# A jump of the wall clock beyond a limit expires no id. This jump is below the limit.
JUMP_MS: Final = 20 * 60_000
EXPIRING_MS: Final = 10 * 60_000
SWEEP_MS: Final = 100


class FailingTombstone(TransactionStage):
    """The wall clock of the coordinator jumps beyond the expiry of an id while no other broker can
    get the tombstone."""

    # The tombstones that coordinators have decided.
    tombstones = 0

    def _new_node(self, broker_id: int) -> MemberNode:
        node = super()._new_node(broker_id)
        node.settings = replace(
            node.settings,
            transactional_id_expiration_ms=EXPIRING_MS,
            transaction_remove_expired_transaction_cleanup_interval_ms=SWEEP_MS,
        )
        return node

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        await self.first.transaction(self.places)
        node = self.leader(self.logs.transactions)
        before = self.first.identity
        self._count(node)
        await self.fail(node)
        await self.until(self.in_sync, "all brokers are in sync")
        await self.first.transaction(self.places)
        if self.first.identity[0] != before[0]:
            self.violate(f"{before} became {self.first.identity}")
        await self.run_second()

    async def fail(self, coordinator: MemberNode) -> None:
        raise NotImplementedError

    def _count(self, node: MemberNode) -> None:
        runtime = node.broker.transactions.runtime
        run = runtime.run

        def counted(index: int, decision: Decision[Any]) -> Any:
            self.tombstones += sum(record.value is None for record in decision.records)
            return run(index, decision)

        runtime.run = counted  # type: ignore[method-assign]


class RefusedTombstone(FailingTombstone):
    """The log of the coordinator is below its min ISR, so the tombstone is refused."""

    async def fail(self, coordinator: MemberNode) -> None:
        assert self.logs is not None
        for node in self.nodes.values():
            if node is not coordinator:
                self.kill(node, 4 * SECOND_US)
        led = self.replica(coordinator.broker_id, self.logs.transactions)
        await self.until(lambda: led.replicas.is_under_min_isr, "the leader knows its ISR")
        end = led.log_end_offset
        coordinator.clock.wall_offset_ms = JUMP_MS
        await self.until(lambda: self.tombstones >= 2, "two sweeps have failed")
        coordinator.clock.wall_offset_ms = 0
        if led.log_end_offset != end or not led.replicas.is_under_min_isr:
            self.violate("a tombstone was written")


def test_x6_an_id_stays_usable_at_a_coordinator_below_its_min_isr() -> None:
    play(RefusedTombstone)


class LostTombstone(FailingTombstone):
    """The tombstone is only in the log of the coordinator, which dies."""

    async def fail(self, coordinator: MemberNode) -> None:
        assert self.logs is not None
        log = self.logs.transactions
        for node in self.nodes.values():
            if node is not coordinator:
                self.cut(coordinator, node, SECOND_US)
        led = self.replica(coordinator.broker_id, log)
        coordinator.clock.wall_offset_ms = JUMP_MS
        await self.until(lambda: self.tombstones, "a tombstone is decided")
        if led.is_committed or self.found(coordinator).state is not None:
            self.violate("the coordinator dies without a tombstone that no other broker has")
        coordinator.clock.wall_offset_ms = 0
        self.kill(coordinator, AWAY_US)
        await self.until(
            lambda: self.leader_of(log) not in (coordinator.broker_id, -1), "another leads"
        )
        if self.found(self.nodes[self.leader_of(log)]).state is None:
            self.violate("the next coordinator has the tombstone")


def test_x6_an_id_is_usable_at_the_next_coordinator_which_has_no_tombstone() -> None:
    play(LostTombstone)
