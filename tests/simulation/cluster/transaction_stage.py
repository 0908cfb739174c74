"""A cluster with one transaction and a trap at one of its points. The transaction's coordinator and
leaders are different brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

from oncelog_client import TopicPartition
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.partition.partition import Partition
from tests.simulation.checking.internal_records import (
    Transition,
    read_transitions,
    replay_offsets,
)
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import Logs, Moment, Point, Trap
from tests.simulation.cluster.instance import Instance
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.stage import SECOND_US, Stage
from tests.simulation.cluster.watched_disk import WatchedDisk
from tests.simulation.disk_logs import logs_on
from tests.simulation.process import CURRENT

ID: Final = "t"
# The offsets of the transactions are for partitions of this topic, one for each transaction.
INPUT: Final = "in"
FIRST, SECOND = 0, 1
OFFSETS: Final = (5, 7)
# The time for which a broker is lost: longer than two sessions.
AWAY_US: Final = 5 * SECOND_US


class TransactionStage(Stage):
    """A cluster with a transaction (`logs`, from `prepare` on) to three partitions and a group."""

    # True if the coordinator of the transaction also leads one of its partitions.
    has_local_leader = False

    def __init__(self, *world: Any) -> None:
        super().__init__(*world)
        self.trap: Trap | None = None
        self.logs: Logs | None = None
        self.places: list[TopicPartition] = []
        self.group = ""
        self.first = Instance(self, "first", ID)
        self.second = Instance(self, "second", ID)

    # --- the point

    def arm(self, point: Point, spring: Callable[[str], None]) -> None:
        """Call `spring` with the log of the point when the transaction is there."""
        assert self.logs is not None
        trap = self.trap = Trap(point, self.logs, spring)
        for id, node in self.nodes.items():
            assert isinstance(node.disk, WatchedDisk)
            node.disk.begins = partial(trap.append_begins, id)
            node.disk.ends = partial(trap.append_ends, id)
        if point.moment is Moment.ANSWERED:
            self._markers().marker_sender = lambda partition: None

    def release_markers(self) -> None:
        """Let the coordinator send markers, which `arm` has stopped."""
        if self.trap is not None and self.trap.point.moment is Moment.ANSWERED:
            del self._markers().marker_sender

    def _markers(self) -> Any:
        """Return the object that finds the leaders for the coordinator's markers."""
        assert self.logs is not None
        return self.leader(self.logs.transactions).broker.transactions._leaders

    def moved(self, partition: Partition, before: int | None) -> None:
        super().moved(partition, before)
        node = self.here()
        if self.trap is None or node is None or not partition.is_leader:
            return
        if partition.high_watermark == partition.log_end_offset:
            self.trap.all_committed(node.broker_id, str(partition.topic_partition))

    def here(self) -> MemberNode | None:
        """Return the broker that runs a callback now."""
        process = CURRENT.get()
        return None if process is None else self.node_of(process)

    def leader(self, log: str) -> MemberNode:
        """Return the broker that has led a log since before the transaction."""
        assert self.logs is not None
        return self.nodes[self.logs.leaders[log]]

    def found(self, node: MemberNode, transactional_id: str = ID) -> Transition:
        """Return the last state of a transactional id in the log of a broker."""
        topic, _, index = self.transaction_log(transactional_id).rpartition("-")
        log = logs_on(node.disk)[topic, int(index)]
        states = read_transitions(log)
        return [state for state in states if state.transactional_id == transactional_id][-1]

    # --- the script

    async def prepare(self) -> None:
        """Start the first instance, and choose the partitions of its transaction."""
        await self.create_internal_topics()
        await self.first.start()
        await self.until(self.in_sync, "all brokers are in sync")
        self.places, self.group = self._placement()
        self.logs = self._logs()

    async def run_first(self, *, committed: bool = True) -> None:
        """Run the transaction of the first instance to its end."""
        await self._run(self.first, FIRST, committed)
        if self.trap is not None:
            self.trap.answered()

    async def run_second(self) -> None:
        """Run a transaction of the second instance, which fences the first one."""
        await self.second.start()
        await self._run(self.second, SECOND, True)
        if not self.first.has_open and not await self.first.is_fenced(self.places[0]):
            self.violate("the first instance is not fenced")
        await self.until(self.in_sync, "all brokers are in sync")
        await self.first.end()
        await self.second.end()

    async def _run(self, instance: Instance, number: int, committed: bool) -> None:
        offset = self.group, TopicPartition(INPUT, number), OFFSETS[number]
        await instance.transaction(self.places, offset=offset, committed=committed)

    def _placement(self) -> tuple[list[TopicPartition], str]:
        """Return three partitions and a group that the coordinator of the transaction does not
        lead. The first and the third partition have one leader, the second has another one. With
        `has_local_leader`, the coordinator leads the third partition."""
        coordinator = self.leader_of(self.transaction_log(ID))
        all_places = [*self.shared_partitions, *self.input_partitions, *self.output_partitions]
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in all_places:
            by_leader.setdefault(self.leader_of(str(place)), []).append(place)
        own = by_leader.pop(coordinator)
        (first, third), (second, *_) = [found[:2] for found in by_leader.values()]
        groups = (f"g-{number}" for number in count())
        group = next(g for g in groups if self.leader_of(self.offsets_log(g)) != coordinator)
        return [first, second, own[0] if self.has_local_leader else third], group

    def _logs(self) -> Logs:
        first, second, third = map(str, self.places)
        transactions, offsets = self.transaction_log(ID), self.offsets_log(self.group)
        names = (transactions, first, second, third, offsets)
        leaders = {name: self.leader_of(name) for name in names}
        return Logs(transactions, (first, second, third), offsets, leaders)

    # --- the outcome

    def check_outcome(
        self, logs: Mapping[tuple[str, int], PartitionLog], *, committed: bool, second: bool = True
    ) -> None:
        """Check that all partitions and the group have the outcome `committed` of the first
        transaction. With `second`, they must also have the second transaction, which is
        committed."""
        for number, place in enumerate(self.places):
            wanted = [self.first.values[number]] * committed
            wanted += [self.second.values[number]] * second
            found = [int(record.value or b"") for record in logs[place].committed_records()]
            if found != wanted:
                self.violate(f"{place} has {found}, not {wanted}")
        offsets = [log for (topic, _), log in logs.items() if topic == CONSUMER_OFFSETS]
        found_offsets = replay_offsets(offsets).committed
        for number, is_committed in ((FIRST, committed), (SECOND, second)):
            found_offset = found_offsets.get((self.group, INPUT, number))
            if found_offset != (OFFSETS[number] if is_committed else None):
                self.violate(f"the group has the offset {found_offset} of {INPUT}-{number}")
