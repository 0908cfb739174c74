"""The state that each step of an exploration changes: two producers, two partitions and one
coordinator."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_server.partition.verification import VerificationGuard
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.markers import MarkerWork
from tests.exploration.clients import ClientModel, End, Produce, Request
from tests.exploration.coordinator_model import CoordinatorModel
from tests.exploration.partition_model import Ghost, PartitionModel

PARTITIONS = (TopicPartition("a", 0), TopicPartition("a", 1))


class Held(NamedTuple):
    """A request that the network still has, although its client no longer waits for it."""

    client: int
    request: Request


class Owed(NamedTuple):
    """A marker in flight."""

    work: MarkerWork
    partition: int


class Parked(NamedTuple):
    """A Produce that waits until its partition is in the transaction. `guard`: a key of
    `WorldModel.guards`."""

    request: Produce
    guard: int


class Answered(NamedTuple):
    """An EndTxn with a successful response that has reached the client."""

    ended: End
    client: int


class Budget(NamedTuple):
    """The number of rare events that may still happen. Each event multiplies the number of possible
    orders of steps. `transactions` is the maximum number for each client, and does not decrease."""

    transactions: int = 2
    restarts: int = 1
    losses: int = 1
    timeouts: int = 1
    holds: int = 1


class WorldModel:
    """The world. It is mutable, and each step changes a clone. `violations`: the invariants that
    the last step violated.

    The clone shares its partitions until `changing` copies one.
    """

    def __init__(self, clients: tuple[ClientModel, ...], budget: Budget) -> None:
        self.clients = clients
        self.budget = budget
        self.coordinator = CoordinatorModel()
        self.partitions = [PartitionModel(), PartitionModel()]
        self.held: tuple[Held, ...] = ()
        self.owed: tuple[Owed, ...] = ()
        # Markers without a response. The coordinator sends them again.
        self.again: tuple[Owed, ...] = ()
        self.answered: tuple[Answered, ...] = ()
        # All EndTxn requests that the clients have sent.
        self.asked: frozenset[tuple[Ghost, bool]] = frozenset()
        # For each (producer id, epoch), the client that got them.
        self.handed: tuple[tuple[tuple[int, int], int], ...] = ()
        self.guards: dict[int, VerificationGuard] = {}
        self.questions = 0
        self.next_producer_id = 100
        self.violations: list[str] = []
        self._owned = [True, True]

    def clone(self) -> WorldModel:
        twin = WorldModel.__new__(WorldModel)
        twin.__dict__.update(self.__dict__)
        twin.coordinator = self.coordinator.clone()
        twin.partitions = list(self.partitions)
        twin.violations = []
        twin._owned = [False, False]
        return twin

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def changing(self, index: int) -> PartitionModel:
        """Return a partition to change. If other worlds share it, copy it first."""
        if not self._owned[index]:
            copies: dict[int, VerificationGuard] = {}
            self.partitions[index] = self.partitions[index].clone(copies)
            self.guards = {
                number: copies.get(id(guard), guard) for number, guard in self.guards.items()
            }
            self._owned[index] = True
        return self.partitions[index]

    def key(self) -> int:
        """Return a hash that is equal for worlds with the same possible futures."""
        return hash(
            (
                self.clients,
                self.budget,
                self.coordinator.key(),
                self.partitions[0].key(),
                self.partitions[1].key(),
                self.held,
                self.owed,
                self.again,
                self.answered,
                self.asked,
                self.handed,
                self.next_producer_id,
                tuple(self._holds(waiter.request) for waiter in self.coordinator.waiting),
            )
        )

    def _holds(self, request: object) -> bool | None:
        if not isinstance(request, Parked):
            return None
        partition = self.partitions[request.request.partition]
        producer_id = request.request.producer[0]
        return partition.guards.holds(producer_id, self.guards[request.guard])
