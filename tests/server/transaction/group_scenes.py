"""Producers of a consumer group in a `World` (a broker in memory), and a client's group commit: one
EndTxn that ends the transactions of several producers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.producing.produce import ACKS_ALL, PartitionAppend, Produce
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.results import TransactionResult
from tests.server.producing.appends import append_of
from tests.server.transaction.world import (
    DATA,
    GROUP,
    OFFSETS,
    PRODUCE_TIMEOUT_MS,
    World,
    transactional_batch,
    value_of,
)

PARENT = "sink"
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
Answer = TransactionResult | Deferred[TransactionResult]


def join(
    world: World, transactional_id: str, generation_id: int, *partitions: TopicPartition
) -> Answer:
    return world.transactions.init_producer_id(
        InitProducerId(transactional_id, 60_000),
        GroupAssignment(GROUP, generation_id, frozenset(partitions)),
    )


def member(
    world: World, transactional_id: str, generation_id: int, *partitions: TopicPartition
) -> GroupedTransaction:
    """Return a producer that has joined the group. Its InitProducerId is retried while the
    coordinator is busy."""
    for _ in range(5):
        response = join(world, transactional_id, generation_id, *partitions)
        world.settle()
        result = value_of(response)
        if result.code is not BUSY:
            break
    assert result.code is ErrorCode.NONE
    return GroupedTransaction(transactional_id, result.producer_id, result.producer_epoch)


def add(
    world: World, member: GroupedTransaction, *partitions: TopicPartition, version: int = 2
) -> Answer:
    return world.transactions.add_partitions(
        AddPartitions(*member, frozenset(partitions), version, group_id=GROUP)
    )


def produce(
    world: World, member: GroupedTransaction, partition: TopicPartition, value: bytes = b"v"
) -> tuple[PartitionAppend, Deferred[None] | None]:
    append = append_of(
        partition.partition,
        transactional_batch(member[1:], 0, value, world.wall()),
        world.partitions[partition],
    )
    later = Produce(
        [append],
        [append],
        member.transactional_id,
        ACKS_ALL,
        True,
        world.transactions.add_partitions,
        world.wall(),
        PRODUCE_TIMEOUT_MS,
        world.timers,
        group_id=GROUP,
    ).run()
    return append, later


def end(
    world: World, member: GroupedTransaction, *members: GroupedTransaction, committed: bool = True
) -> Answer:
    """Send EndTxn for the parent `member` and for `members`. The request is that of transaction
    version 1, so that the parent keeps its epoch."""
    return world.transactions.end_txn(
        EndTxn(*member, committed, False, group_id=GROUP, members=tuple(sorted(members)))
    )


@dataclass
class GroupCommit:
    """A client's group commit: a parent that commits an offset, and a member for each partition.
    After a crash of the broker, `asked` is True if the client had sent EndTxn, and `ended` is the
    response, if the client got it."""

    committed: bool
    parent: GroupedTransaction | None = None
    members: list[GroupedTransaction] = field(default_factory=list)
    asked: bool = False
    ended: TransactionResult | None = None

    def run(self, world: World, until: Callable[[], bool]) -> None:
        """Run the group commit. `until` advances the disk and time, and returns False if no work is
        left."""

        def wait(response: object) -> None:
            while isinstance(response, Deferred) and not response.done:
                assert until()

        def made(transactional_id: str) -> GroupedTransaction:
            response = join(world, transactional_id, 1)
            wait(response)
            result = value_of(response)
            assert result.code is ErrorCode.NONE
            return GroupedTransaction(transactional_id, result.producer_id, result.producer_epoch)

        self.parent = made(PARENT)
        for number, partition in enumerate(DATA):
            joined = made(f"{PARENT}/{number}")
            append, later = produce(world, joined, partition, b"first")
            wait(later)
            assert append.code is ErrorCode.NONE
            self.members.append(joined)
        wait(add(world, self.parent, OFFSETS, version=0))
        wait(world.commit_offset(self.parent[1:], 5, transactional_id=PARENT))
        self.asked = True
        response = end(world, self.parent, *self.members, committed=self.committed)
        wait(response)
        self.ended = value_of(response)
        assert self.ended.code is ErrorCode.NONE
        while until():
            pass

    def ask_again(self, world: World) -> TransactionResult:
        """Send the same EndTxn to the next process until its response is final."""
        assert self.parent is not None
        for _ in range(20):
            response = end(world, self.parent, *self.members, committed=self.committed)
            world.settle(500)
            result = value_of(response)
            if result.code is not BUSY:
                break
        return result
