"""What the model Spark knows of a sink: machines that ask a broker, one for each thing that Spark
calls in a process of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import Plan, TaskMessage
from oncelog_client.spark.sink.protocol.steps import Generation, Planned, Raised, Returned

from .broker import Broker
from .requests import Reply, Request, Row


class Asks(NamedTuple):
    """A machine that waits for the answers to `requests`, which go out one after the other; unless
    `is_pipelined`, a refusal keeps back those that follow it."""

    state: Hashable
    requests: tuple[Request, ...]
    is_pipelined: bool = False


class Written(NamedTuple):
    """A task is over: None where it has failed."""

    message: TaskMessage | None


Turn = Asks | Planned | Written | Returned | Raised


class Sink(Protocol):
    """One back-end with the machines of the sink. Every method is pure; what it returns can be
    hashed."""

    @property
    def shows_parts(self) -> bool:
        """Whether a batch may be visible in part for a while after its decision."""

    def decided(self, broker: Broker) -> int:
        """The number of batches that are decided by what is durable."""

    def plan(self, query_id: str, begun: Generation | None) -> Turn:
        """In a Python process of the driver, with what it has begun before. Ends in Planned or
        Raised."""

    def write(
        self, plan: Plan, attempt: Attempt, transactional_id: str, rows: tuple[Row, ...]
    ) -> Turn:
        """In a Python process of an executor. Ends in Written."""

    def commit(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """In another process of the driver. Ends in Returned or Raised."""

    def abort(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """As commit. Ends in Returned."""

    def resume(self, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        """Go on with the answers; fewer than requests where one was refused or never came."""
