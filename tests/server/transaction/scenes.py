"""Objects for tests of the whole path of a transaction: another broker, an open transaction."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import MarkerSettled
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.states import State
from tests.server.transaction.world import World


class Remote:
    """Another broker. It keeps requests until the test lets it respond."""

    is_local = False

    def __init__(self) -> None:
        self.sent: list[tuple[MarkerWork, list[TopicPartition], MarkerSettled]] = []

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        self.sent.append((work, partitions, settled))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        _, partitions, settled = self.sent.pop(0)
        for partition in partitions:
            settled(partition, code)


def state(world: World, transactional_id: str = "t") -> State:
    live = world.transactions.owner(transactional_id)[1].get(transactional_id)
    assert live is not None
    return live.metadata.state


def outcomes(world: World, partition: TopicPartition) -> list[bool]:
    """Return True (commit) or False (abort) for every transaction with records in the partition, in
    the order of the markers."""
    return [committed for _, _, _, committed in world.oracle(partition).completed]


def opened(world: World, *partitions: TopicPartition, version: int = 2) -> tuple[int, int]:
    """Return a producer with an open transaction, which has a record in each of these
    partitions."""
    producer = world.producer()
    for partition in partitions:
        world.add(producer, partition, version=version)
        append, _ = world.produce(producer, partition, 0, adds_partitions=False)
        assert append.code is ErrorCode.NONE
    return producer
