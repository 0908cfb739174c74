"""A driver for the decisions of the transaction coordinator about the producers of one consumer
group. It extends the driver of single transactions."""

from __future__ import annotations

from functools import partial

from oncelog_server.coordinator.shard import Decision
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.grouped.commit import decide_group_commit
from oncelog_server.transaction.grouped.init import decide_departure, decide_init_in_group
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import LiveTransaction
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import Answer, Driver

GROUP = "g"
IN0, IN1, IN2 = (TopicPartition("in", number) for number in range(3))


class GroupDriver(Driver):
    """`last_batch` is the number of records of the last decision, or 0 if their append failed.
    `batches` has the size of each batch of several records, by its first offset."""

    last_batch = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.batches: dict[int, int] = {}

    def run(self, decision: Decision[TransactionResult] | Decision[None]) -> Answer:
        if decision.response is not None:
            self.last_batch = 0 if self.append_error else len(decision.records)
            if self.last_batch > 1:
                self.batches[len(self.log)] = self.last_batch
        return super().run(decision)

    def crash(self, *, keeps: int | None = None, down_ms: int = 0) -> None:
        """Crash. `keeps` uncommitted records survive, but of a batch either all records or none."""
        if keeps is not None:
            end = self.committed + keeps
            for begin, size in self.batches.items():
                if begin < end < begin + size:
                    keeps = begin - self.committed
        super().crash(keeps=keeps, down_ms=down_ms)
        self.batches = {
            begin: size for begin, size in self.batches.items() if begin < len(self.log)
        }

    def join(
        self, transactional_id: str, generation_id: int, *partitions: TopicPartition,
        group_id: str = GROUP, caller: Client | None = None,
    ) -> Answer:  # fmt: skip
        """Send InitProducerId of a producer in the group."""
        command = InitProducerId(transactional_id, 60_000, caller=caller)
        decision = self.decide(
            decide_init_in_group,
            self.shard,
            command,
            GroupAssignment(group_id, generation_id, frozenset(partitions)),
            wall_ms=self.wall_ms,
            new_producer_id=partial(self.new_producer_id, command.principal),
        )
        return self.run(decision)

    def member(
        self, transactional_id: str, generation_id: int, *partitions: TopicPartition,
        caller: Client | None = None,
    ) -> GroupedTransaction:  # fmt: skip
        """Return a producer that has joined the group."""
        result = self.join(transactional_id, generation_id, *partitions, caller=caller).value
        return GroupedTransaction(transactional_id, result.producer_id, result.producer_epoch)

    def begin(
        self, member: GroupedTransaction, *partitions: TopicPartition, version: int = 2
    ) -> None:
        """Begin the member's transaction with these partitions."""
        self.add(
            member.producer_id,
            member.producer_epoch,
            *partitions,
            transactional_id=member.transactional_id,
            version=version,
        )

    def commit_group(
        self, parent: GroupedTransaction, *members: GroupedTransaction, committed: bool = True,
        bumps_epoch: bool = False, group_id: str = GROUP,
    ) -> Answer:  # fmt: skip
        command = EndTxn(
            *parent, committed, bumps_epoch, group_id=group_id, members=tuple(sorted(members))
        )
        decision = self.decide(
            decide_group_commit,
            self.shard,
            command,
            wall_ms=self.wall_ms,
            next_producer_id=lambda producer_id: self.new_producer_id(
                self.owner_of_id(producer_id)
            ),
        )
        return self.run(decision)

    def depart(self, transactional_id: str) -> Answer:
        decision = self.decide(
            decide_departure, self.shard, transactional_id, None, wall_ms=self.wall_ms
        )
        return self.run(decision)

    def live_of(self, transactional_id: str) -> LiveTransaction:
        live = self.shard.get(transactional_id)
        assert live is not None
        return live

    def state_of(self, transactional_id: str) -> State:
        return self.live_of(transactional_id).metadata.state
