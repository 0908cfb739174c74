"""Clusters under load with a fault that strikes a chosen broker at a chosen moment. When the fault
has struck, the world counts this as a rare state (`sometimes`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.transaction.states import State
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.cuts import Cut, both_ways
from tests.simulation.disk import Loss
from tests.simulation.fault import Fault

S: Final = 1_000_000
DECIDED: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)


class AimedWorld(ClusterWorld):
    """A cluster with clients that work while `strike` runs."""

    # The time between two checks of whether the moment has come.
    look_s = 0.01

    async def work(self, faults: list[Fault]) -> None:
        self.background(self.strike())
        await super().work(faults)

    async def strike(self) -> None:
        """Choose the broker and the moment. A fault that has not struck by the end of the work does
        not count."""
        raise NotImplementedError

    async def until(self, condition: Callable[[], object]) -> bool:
        """Return True as soon as the condition holds, False at the end of all faults."""
        while not self.is_healed:
            if condition():
                return True
            await asyncio.sleep(self.look_s)
        return False

    def leader(self, log: str) -> MemberNode | None:
        """Return the broker that leads a partition, None if it is down or there is none."""
        record = self.rules.metadata.partitions.get(log)
        node = None if record is None else self.nodes.get(record.leader)
        return node if node is not None and node.is_up and not node.is_restarting else None

    def has_moved(self, log: str, lost: MemberNode) -> bool:
        """Return True if another broker leads the partition."""
        return self.leader(log) not in (None, lost)


class MovesCoordinators(AimedWorld):
    """The coordinator of half of the transactions dies twice, each time for longer than its
    session."""

    async def strike(self) -> None:
        log = f"{TRANSACTION_STATE}-0"
        for _ in range(2):
            await asyncio.sleep(1.0)
            await self.until(lambda: self.leader(log))
            lost = self.leader(log)
            if lost is None:
                return
            lost.kill()
            self.restart_after(lost, 3 * S)
            if await self.until(partial(self.has_moved, log, lost)):
                self.sometimes.met("a coordinator has moved")


class CutsMarkers(AimedWorld):
    """A coordinator with a decided transaction is cut off from the leader of a partition that lacks
    the marker."""

    look_s = 0.001

    async def strike(self) -> None:
        while await self.until(lambda: next(self._pending(), None)):
            coordinator, leader, decided = next(self._pending())
            cuts = both_ways([coordinator.host], [leader.host])
            self.net.cuts.add(cuts)
            await asyncio.sleep(3.0)
            left = [(node, transaction) for node, _, transaction in self._pending()]
            # If the transaction is complete by now, the marker had left before the cut.
            if (coordinator, decided) in left:
                self.sometimes.met("a marker has waited for the end of a cut")
            if not self.is_healed:
                self.net.cuts.remove(cuts)

    def _pending(self) -> Iterator[tuple[MemberNode, MemberNode, tuple[int, int]]]:
        """Yield the coordinators of decided transactions, with the leader of a partition that lacks
        the marker, and the producer id and epoch."""
        for node in self.up():
            for _, shard in node.broker.transactions.runtime.shards():
                for metadata in (live.metadata for live in shard.transactions.values()):
                    if metadata.state not in DECIDED:
                        continue
                    for place in metadata.partitions:
                        leader = self.leader(str(place))
                        if leader is not None and leader is not node:
                            yield node, leader, (metadata.producer_id, metadata.producer_epoch)


class LosesLast(AimedWorld):
    """Two brokers die, and the third one, which is then alone in the ISR of a partition, loses its
    power. It starts again before the two others."""

    async def strike(self) -> None:
        await asyncio.sleep(1.0)
        last, *others = self.nodes.values()
        for node in others:
            node.kill()
            self.restart_after(node, 5 * S)
        partitions = self.rules.metadata.partitions
        alone = (last.broker_id,)
        if not await self.until(lambda: any(r.isr == alone for r in partitions.values())):
            return
        self.sometimes.met("the last in an ISR has lost its power", self.up() == [last])
        last.kill_computer()
        loss = Loss(ordered=self.options.loss_ordered, holes=self.options.loss_holes)
        last.lose_power(loss, self.rules.metadata.revision)
        self.restart_after(last, S // 10)
        if await self.until(lambda: last.is_up) and self.up() == [last]:
            self.sometimes.met("the last in an ISR is up again, and alone")


class OneWay(AimedWorld):
    """No byte of a coordinator arrives at any other host. With `is_deaf`, no byte of another host
    arrives at the coordinator."""

    is_deaf = False

    async def strike(self) -> None:
        log = f"{TRANSACTION_STATE}-0"
        await asyncio.sleep(1.0)
        await self.until(lambda: self.leader(log))
        lost = self.leader(log)
        if lost is None:
            return
        hosts = frozenset([lost.host])
        cuts = [Cut(None, hosts) if self.is_deaf else Cut(hosts, None)]
        self.net.cuts.add(cuts)
        if await self.until(partial(self.has_moved, log, lost)):
            self.sometimes.met("another broker coordinates")
        await asyncio.sleep(1.0)
        if not self.is_healed:
            self.net.cuts.remove(cuts)
