"""A small Spark and a model broker: the state on disk, the living processes, the requests in
flight."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from oncelog_client.spark.sink.protocol.ids import ProcessIds
from oncelog_client.spark.sink.protocol.messages import Plan, TaskMessage
from oncelog_client.spark.sink.protocol.steps import Generation

from .broker import Broker
from .requests import Reply, Request
from .sinks import Asks


class Phase(Enum):
    """The phases of a query within a micro-batch."""

    BEGIN = "begin"
    PLAN = "plan"
    RUN = "run"
    COMMIT = "commit"
    LOG = "log"
    ABORT = "abort"
    FAILED = "failed"
    FINISHED = "finished"

    # Enum.__hash__ hashes the name, which is slower.
    __hash__ = object.__hash__


class Call(NamedTuple):
    """A call that waits for responses, with the responses so far."""

    asks: Asks
    replies: tuple[Reply, ...] = ()

    @property
    def request(self) -> Request:
        return self.asks.requests[len(self.replies)]


class Driver(NamedTuple):
    """A run of the query. `process`: the index of the planning process in its session
    (`World.sessions`). `begun`: the generation that this process had when the planning began. If
    `is_current` is False, the driver still runs, but its successor takes it for dead."""

    number: int
    query_id: str
    batch_id: int
    phase: Phase = Phase.BEGIN
    is_current: bool = True
    session: int = 0
    process: int = 0
    begun: Generation | None = None
    call: Call | None = None
    plan: Plan | None = None
    messages: tuple[TaskMessage | None, ...] = ()

    def __str__(self) -> str:
        zombie = "" if self.is_current else " (zombie)"
        return f"driver {self.number}{zombie}, batch {self.batch_id}"


class Task(NamedTuple):
    """One attempt of a task. `call` is set while the attempt works, `message` after its end."""

    driver: int
    batch_id: int
    partition: int
    attempt: int
    process: int
    call: Call | None = None
    message: TaskMessage | None = None

    def __str__(self) -> str:
        which = f"{self.driver}/{self.batch_id}.{self.partition}.{self.attempt}"
        return f"task {which} in process {self.process}"


class Budget(NamedTuple):
    """The number of rare events of each kind that may still happen. Each event multiplies the
    number of orders of events that the search visits.

    `crashes`: the driver is killed, or cut off and replaced. `attempts`: a further attempt of a
    task. `losses`: a request or its response is lost. `copies`: the network delivers a request a
    second time, later. `timeouts`: a transaction times out. `rests`: the query stands still for
    longer than any retention. `switches`: planning moves to another Python process, new or old.
    `restarts`: an operator restarts a failed query. `heirs`: a later driver runs in the session of
    the driver before it, with the same Python processes. `checkpoints`: the checkpoint is lost.
    """

    crashes: int = 0
    attempts: int = 0
    losses: int = 0
    copies: int = 0
    timeouts: int = 0
    rests: int = 0
    switches: int = 0
    restarts: int = 0
    heirs: int = 0
    checkpoints: int = 0


class Checkpoint(NamedTuple):
    """Spark's checkpoint on disk. `planned` and `committed`: the last batch in its `offsets` and in
    its `commits`, -1 for none."""

    query_id: str
    planned: int = -1
    committed: int = -1


Session = tuple[Generation | None, ...]


class World(NamedTuple):
    """One state of the model. `sessions`: for each session, the generations that the driver's
    Python processes have begun.
    `held`: requests that the network will deliver once more. `processes`: the Python processes of
    the executors."""

    broker: Broker
    checkpoint: Checkpoint
    drivers: tuple[Driver, ...]
    budget: Budget
    sessions: tuple[Session, ...]
    tasks: tuple[Task, ...] = ()
    held: tuple[Request, ...] = ()
    processes: tuple[ProcessIds, ...] = ()

    def having(self, before: Driver, after: Driver) -> World:
        """Return the world with a later state of a driver."""
        drivers = tuple(after if driver is before else driver for driver in self.drivers)
        return self._replace(drivers=drivers)

    def remembering(self, driver: Driver, begun: Generation | None) -> World:
        """Return the world after the driver's planning process has stored `begun`."""
        session = list(self.sessions[driver.session])
        session[driver.process] = begun
        sessions = list(self.sessions)
        sessions[driver.session] = tuple(session)
        return self._replace(sessions=tuple(sessions))

    def without(self, driver: Driver) -> World:
        return self._replace(drivers=tuple(other for other in self.drivers if other is not driver))


class Size(NamedTuple):
    """The amount of work. There are `batches` batches with `partitions` partitions each; `empty`
    names partitions without rows. A driver has `processes` Python processes."""

    batches: int
    partitions: int
    processes: int = 1
    empty: frozenset[tuple[int, int]] = frozenset()


def beginning(budget: Budget, size: Size) -> World:
    """Return the world at the start of a query with a new checkpoint."""
    sessions = ((None,) * size.processes,)
    return World(Broker(), Checkpoint("q0", planned=0), (Driver(0, "q0", 0),), budget, sessions)
