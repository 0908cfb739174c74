"""One cell of the crash matrix of a cluster: a transaction, a broker that is lost for more than two
sessions at a given point, and what the client and its successor see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_server.partition.partition import Partition
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import STATES, Point
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.transaction_stage import AWAY_US, TransactionStage


class Fault(Enum):
    KILL = "kill"
    POWER_LOSS = "power-loss"
    PAUSE = "pause"


class Victim(Enum):
    """The broker that is lost. LEADER: the leader of the point's partition, or of the first
    partition if the point is in the log of the coordinator."""

    COORDINATOR = "coordinator"
    LEADER = "leader"


@dataclass(frozen=True)
class Cell:
    point: Point
    committed: bool
    version: int
    fault: Fault
    victim: Victim

    def __str__(self) -> str:
        end = "commit" if self.committed else "abort"
        where = self.victim.value
        return f"{self.point.name}-{self.fault.value}-of-{where}-{end}-V{self.version}"


class CrashCell(TransactionStage):
    """The world of a cell. Each failed check of the cell is a violation of this world."""

    def __init__(self, *world: Any, cell: Cell) -> None:
        super().__init__(*world)
        self.cell = cell
        self.lost: MemberNode | None = None
        # The log of the point, and the log end offset with which its next leader must begin.
        self.struck = ""
        self.end_at_point = 0
        # The logs of the lost broker that other brokers have begun to lead.
        self.taken_over: set[str] = set()

    # --- the point

    def strike(self, log: str) -> None:
        """Lose the broker, now."""
        logs = self.logs
        assert logs is not None
        # An append in progress does not count yet.
        self.struck, self.end_at_point = log, self.replica(logs.leaders[log], log).log_end_offset
        self.release_markers()
        at_leader = log if log in logs.marked else logs.data[0]
        is_coordinator = self.cell.victim is Victim.COORDINATOR
        lost = self.lost = self.leader(logs.transactions if is_coordinator else at_leader)
        self.inflicted[self.cell.fault.value] += 1
        if self.cell.fault is Fault.PAUSE:
            self.pause(lost, AWAY_US)
        else:
            self.kill(lost, AWAY_US, power=self.cell.fault is Fault.POWER_LOSS)

    # --- the next leaders

    def leads(self, partition: Partition, before: bool | None) -> None:
        super().leads(partition, before)
        node, log, lost = self.here(), str(partition.topic_partition), self.lost
        if lost is None or node is None or node is lost or not partition.is_leader:
            return
        assert self.logs is not None
        if log in self.taken_over or self.logs.leaders.get(log) != lost.broker_id:
            return
        if log == self.struck:
            self._check_end(node, partition)
        if log == self.logs.transactions:
            self._check_found(node)
        self.taken_over.add(log)

    def has_taken_over(self) -> bool:
        """Return True if other brokers lead all logs of the transaction that the lost broker
        led."""
        assert self.logs is not None
        assert self.lost is not None
        leaders = self.logs.leaders.items()
        return self.taken_over >= {log for log, id in leaders if id == self.lost.broker_id}

    def _check_end(self, node: MemberNode, partition: Partition) -> None:
        """Check that the next leader has the append of the point only if it was committed."""
        found = partition.log_end_offset
        if found != self.end_at_point:
            what = f"{node.host} begins to lead {self.struck} at {found}, not {self.end_at_point}"
            self.violate(f"not at the point: {what}")

    def _check_found(self, node: MemberNode) -> None:
        """Check the state in which the next coordinator finds the transaction."""
        found, point = self.found(node), self.cell.point
        state = STATES.get(-1 if found.state is None else found.state)
        if (state, len(found.partitions)) != (point.state, point.partitions):
            self.violate(f"the next coordinator finds {found}")

    # --- the script

    async def act(self) -> None:
        await self.finalize(TRANSACTION_VERSION, 2 if self.cell.version == 2 else 0)
        await self.prepare()
        self.arm(self.cell.point, self.strike)
        await self.run_first(committed=self.cell.committed)
        if self.lost is None:
            self.violate("the point was never reached")
        else:
            await self.until(self.has_taken_over, "other brokers have taken over")
        await self.run_second()

    def judge(self, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
        """Check that all partitions and the group have the outcome that the client has asked
        for."""
        self.check_outcome(logs, committed=self.cell.committed)
