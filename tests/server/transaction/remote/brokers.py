"""Several brokers in one process, each with both coordinators. They call each other by encoded
CoordinatorCalls, which a test may hold or lose. The data is on one disk in memory, as if all that a
leader has appended were replicated: a leader moves by opening its log on another broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResponse,
    CoordinatorCallResult,
)
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.deferred import Deferred, pass_on, then
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.producing.produce import ACKS_ALL, Produce
from oncelog_server.slices import Slices
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.marker_delivery import MarkerSender
from oncelog_server.transaction.remote.calls import Called, ShardLeader, unavailable
from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State
from tests.server.log.driver import Oracle
from tests.server.manual_timers import ManualTimers
from tests.server.producing.appends import append_of
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.log_reading import oracle_of_partition, read_values
from tests.server.transaction.world import (
    DATA,
    OFFSETS,
    PRODUCE_TIMEOUT_MS,
    WALL_MS,
    Scene,
    World,
    transactional_batch,
    value_of,
)

Answer = TransactionResult | Deferred[TransactionResult]
SHARDS = 5


@dataclass
class Flight:
    """A call between two brokers. `answer` gets the result; the caller may be dead by then."""

    sender: int
    receiver: int
    request: bytes
    answer: Deferred[CoordinatorCallResult]
    is_answered: bool = False

    def lose(self) -> None:
        """Break the link. The call may have taken effect, or may still take effect."""
        if not self.is_answered:
            self.is_answered = True
            self.answer.complete(unavailable())

    def complete(self, response: bytes) -> None:
        if not self.is_answered:
            self.is_answered = True
            result = decode(CoordinatorCallResponse, 0, response).result
            self.answer.complete(result)


class Broker(World):
    """One of the brokers. It opens the partitions that it leads."""

    def __init__(self, cluster: Brokers, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        super().__init__(
            cluster.files,
            leads=False,
            shards=cluster.shards,
            next_producer_id=cluster.next_producer_id + 1_000 * broker_id,
            timers=cluster.timers,
            now_ms=cluster.timers.now_ms,
            wall_ms=cluster.started_wall_ms,
            flush_on_ack=cluster.flush_on_ack,
        )
        self.others = OtherCoordinators(
            broker_id,
            self.transactions,
            self.groups,
            leader_of=cluster.leaders.get,
            send=lambda receiver, _, call: cluster.send(broker_id, receiver, call),
            shard_count=lambda: cluster.shards,
            work=cluster.slices.run,
            wall_ms=self.wall,
            monotonic_ms=self.now,
        )

    def new_scene(self) -> Scene:
        return BrokerScene(self)

    @property
    def opened(self) -> Sequence[TopicPartition]:
        return ()

    def open(self, name: TopicPartition, epoch: int) -> None:
        """Lead a partition, with all that former leaders have written."""
        self.leader_epoch = epoch
        self.partitions[name] = partition = self._open(name)
        if name.topic == TRANSACTION_STATE:
            self.transactions.lead(partition)
        elif name.topic == CONSUMER_OFFSETS:
            self.groups.lead(partition)

    def close(self, name: TopicPartition) -> None:
        """Stop leading a partition."""
        self.partitions.pop(name).resign()
        if name.topic == TRANSACTION_STATE:
            self.transactions.resign(name.partition)
        elif name.topic == CONSUMER_OFFSETS:
            self.groups.resign(name.partition)


class BrokerScene(Scene):
    """The leaders of the cluster, as one broker sees them."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.local, {}, broker.cluster.scene.leaderless)
        self._broker = broker

    def marker_sender(self, partition: TopicPartition) -> MarkerSender | None:
        cluster = self._broker.cluster
        if partition in self.leaderless:
            return None
        # Markers arrive at once at every living leader.
        return cluster.brokers[cluster.leaders[partition].broker_id].local

    def leader(self, partition: TopicPartition) -> int | None:
        return -1 if partition in self.leaderless else self._leader(partition).broker_id

    def _leader(self, partition: TopicPartition) -> ShardLeader:
        return self._broker.cluster.leaders[partition]


@dataclass
class _Shared:
    """The sets of a Scene that all brokers share."""

    leaderless: set[TopicPartition] = field(default_factory=set)


class Brokers:
    """The cluster. It has the methods of a World that tests of one broker use too."""

    def __init__(
        self,
        *,
        size: int = 3,
        shards: int = SHARDS,
        files: MemoryFiles | None = None,
        flush_on_ack: bool = False,
        epoch: int = 0,
        wall_ms: int = WALL_MS,
        next_producer_id: int = 0,
        steps_per_slice: int = 10_000,
    ) -> None:
        self.size, self.shards = size, shards
        self.files = files or MemoryFiles()
        self.flush_on_ack = flush_on_ack
        self.timers = ManualTimers(1_000)
        self.slices = Slices(self.timers, self.now, steps_per_slice=steps_per_slice)
        self.started_wall_ms = wall_ms
        self.next_producer_id = next_producer_id
        self.scene = _Shared()
        self.flights: list[Flight] = []
        # Links that deliver nothing for now: (sender, receiver).
        self.held: set[tuple[int, int]] = set()
        self.sent = 0
        self.epoch = epoch
        names = [*DATA, OFFSETS, *self.transaction_logs]
        self.leaders = {
            name: ShardLeader(1 + number % size, epoch) for number, name in enumerate(names)
        }
        self.brokers = {id_: Broker(self, id_) for id_ in range(1, size + 1)}
        for name, leader in self.leaders.items():
            self.brokers[leader.broker_id].open(name, epoch)
        self.transactions = Router(self)

    @property
    def transaction_logs(self) -> list[TopicPartition]:
        return [TopicPartition(TRANSACTION_STATE, number) for number in range(self.shards)]

    def shard_of(self, key: str) -> TopicPartition:
        return TopicPartition(TRANSACTION_STATE, partition_for(key, self.shards))

    def coordinator(self, key: str) -> Broker:
        """Return the coordinator of a transactional id or a group."""
        return self.brokers[self.leaders[self.shard_of(key)].broker_id]

    @property
    def offsets_broker(self) -> Broker:
        return self.brokers[self.leaders[OFFSETS].broker_id]

    @property
    def partitions(self) -> dict[TopicPartition, Partition]:
        return {
            name: self.brokers[leader.broker_id].partitions[name]
            for name, leader in self.leaders.items()
        }

    def now(self) -> int:
        return self.timers.now_ms

    def wall(self) -> int:
        return self.brokers[1].wall()

    # --- the network

    def send(self, sender: int, receiver: int, call: CoordinatorCall) -> Called:
        self.sent += 1
        request = encode(CoordinatorCallRequest(call), 0)
        flight = Flight(sender, receiver, request, Deferred())
        self.flights.append(flight)
        return flight.answer

    def deliver(self) -> bool:
        """Deliver the next call. Return False if none can be delivered."""
        for flight in self.flights:
            if (flight.sender, flight.receiver) not in self.held:
                self.flights.remove(flight)
                self._serve(flight)
                return True
        return False

    def _serve(self, flight: Flight) -> None:
        call = decode(CoordinatorCallRequest, 0, flight.request).call
        result = self.brokers[flight.receiver].others.serve(call)
        response = then(result, lambda found: encode(CoordinatorCallResponse(result=found), 0))
        arrived: Deferred[bytes] = Deferred()
        arrived.on_complete(flight.complete)
        pass_on(response, arrived)

    def settle(self, advance_ms: int = 0) -> None:
        """Deliver all calls that are not held, and run the disk and the timers."""
        until = self.now() + advance_ms
        while True:
            self.files.settle()
            self.timers.run_soon()
            if self.files.pending or self.deliver():
                continue
            if not self.timers.run_next(until):
                break
        self.timers.now_ms = max(self.timers.now_ms, until)

    # --- fail-over

    def move(self, name: TopicPartition, broker_id: int) -> None:
        """Let another broker lead a partition, in the next epoch."""
        old = self.leaders[name]
        self.brokers[old.broker_id].close(name)
        self.leaders[name] = ShardLeader(broker_id, old.epoch + 1)
        self.brokers[broker_id].open(name, old.epoch + 1)

    def kill(self, broker_id: int) -> None:
        """End a broker. Its calls are lost, and the next broker leads its partitions. A new process
        takes its place, which leads nothing."""
        for flight in [*self.flights]:
            if flight.receiver == broker_id:
                self.flights.remove(flight)
                flight.lose()
            elif flight.sender == broker_id:
                flight.is_answered = True  # delivered, and heard by no process
        heir = broker_id % self.size + 1
        dead = self.brokers[broker_id]
        for name in list(dead.partitions):
            self.move(name, heir)
        self.next_producer_id += 1_000 * self.size
        self.brokers[broker_id] = Broker(self, broker_id)

    def crash(self) -> Brokers:
        """End all brokers, and start them on the same disk."""
        return Brokers(
            size=self.size,
            shards=self.shards,
            files=self.files.after_kill(),
            flush_on_ack=self.flush_on_ack,
            epoch=max(leader.epoch for leader in self.leaders.values()) + 1,
            wall_ms=self.wall(),
            next_producer_id=self.next_producer_id + 1_000 * (self.size + 1),
        )

    # --- requests, as those of a World

    def init(self, transactional_id: str = "t", *producer: int, **settings: Any) -> Answer:
        broker = self.coordinator(transactional_id)
        return self.answered(lambda: broker.init(transactional_id, *producer, **settings))

    def producer(self, transactional_id: str = "t") -> tuple[int, int]:
        for _ in range(10):
            result = value_of(self.init(transactional_id))
            if not result.code:
                return result.producer_id, result.producer_epoch
            self.settle(200)
        raise AssertionError(result)

    def add(self, producer: tuple[int, int], *partitions: TopicPartition, **named: Any) -> Answer:
        broker = self.coordinator(named.get("transactional_id", "t"))
        return self.answered(lambda: broker.add(producer, *partitions, **named))

    def end(self, producer: tuple[int, int], committed: bool, **named: Any) -> Answer:
        broker = self.coordinator(named.get("transactional_id", "t"))
        return self.answered(lambda: broker.end(producer, committed, **named))

    def produce(
        self,
        producer: tuple[int, int],
        partition: TopicPartition,
        sequence: int,
        value: bytes = b"v",
        *,
        transactional_id: str = "t",
    ) -> None:
        """Append a record at the partition's leader, which adds the partition at the coordinator
        of the id."""
        append = append_of(
            partition.partition,
            transactional_batch(producer, sequence, value, self.wall()),
            self.partitions[partition],
        )
        Produce(
            [append],
            [append],
            transactional_id,
            ACKS_ALL,
            True,
            self.transactions.add_partitions,
            self.wall(),
            PRODUCE_TIMEOUT_MS,
            self.timers,
        ).run()
        self.settle()
        assert not append.code

    def answered(self, ask: Callable[[], Answer]) -> Answer:
        """Return the response after all calls that it causes."""
        response = ask()
        self.settle()
        return response

    # --- results

    def read(
        self, partition: TopicPartition, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> list[bytes]:
        return read_values(self.partitions[partition], isolation)

    def oracle(self, partition: TopicPartition) -> Oracle:
        return oracle_of_partition(self.files, partition)

    def shards_in_service(self) -> Iterator[tuple[int, TransactionShard]]:
        for broker in self.brokers.values():
            yield from broker.transactions.runtime.shards()

    def owners(self, transactional_id: str) -> list[str | None]:
        """Return the group of each shard that has the id, None for an id without a group."""
        return [
            shard.group_of(transactional_id)
            for _, shard in self.shards_in_service()
            if _is_here(shard.get(transactional_id))
        ]

    def check(self) -> None:
        for broker in self.brokers.values():
            for name, partition in broker.partitions.items():
                log = partition._log
                assert partition.last_stable_offset <= partition.high_watermark
                assert partition.high_watermark <= log.log_end_offset, name


def _is_here(live: LiveTransaction | None) -> bool:
    return live is not None and live.metadata.state is not State.DEAD


class Router:
    """Sends each command to the coordinator of its key, as clients do, and waits for the calls
    between the brokers."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster

    def init_producer_id(
        self,
        command: InitProducerId,
        group: GroupAssignment | None = None,
        *,
        is_current: bool = False,
    ) -> Answer:
        key = command.transactional_id if group is None else group.group_id
        coordinator = self._cluster.coordinator(key).transactions
        return self._cluster.answered(
            lambda: coordinator.init_producer_id(command, group, is_current=is_current)
        )

    def add_partitions(self, command: AddPartitions) -> Answer:
        coordinator = self._of(command.group_id or command.transactional_id)
        return self._cluster.answered(lambda: coordinator.add_partitions(command))

    def end_txn(self, command: EndTxn) -> Answer:
        coordinator = self._of(command.group_id or command.transactional_id)
        return self._cluster.answered(lambda: coordinator.end_txn(command))

    def _of(self, key: str) -> Any:
        return self._cluster.coordinator(key).transactions
