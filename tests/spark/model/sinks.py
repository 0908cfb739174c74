"""The sink as the model's Spark sees it. Each call of Spark runs a state machine of the sink in one
of Spark's Python processes. The machine sends requests to a broker."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import Plan, TaskMessage
from oncelog_client.spark.sink.protocol.steps import Generation, Planned, Raised, Returned

from .broker import Broker
from .requests import Reply, Request, Row


class Asks(NamedTuple):
    """A machine that sends `requests` in order and waits for their responses. Unless
    `is_pipelined`, it does not send the remaining requests after an error code."""

    state: Hashable
    requests: tuple[Request, ...]
    is_pipelined: bool = False


class Written(NamedTuple):
    """The end of a task: its message, or None for a failed task."""

    message: TaskMessage | None


Turn = Asks | Planned | Written | Returned | Raised


class Sink(Protocol):
    """One back-end of the sink, with its state machines. Every method is pure, and its result can
    be hashed."""

    @property
    def shows_parts(self) -> bool:
        """Return True if readers may see a part of a batch for a while after its decision."""

    def decided(self, broker: Broker) -> int:
        """Return the number of batches that are decided by the durable data of the broker."""

    def plan(self, query_id: str, begun: Generation | None) -> Turn:
        """Run the planning of a write in a Python process of the driver. `begun`: the generation
        that this process has begun, or None. The call ends in Planned or Raised."""

    def write(
        self, plan: Plan, attempt: Attempt, transactional_id: str, rows: tuple[Row, ...]
    ) -> Turn:
        """Write the rows of a task in a Python process of an executor. The call ends in Written."""

    def commit(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """Commit a batch in another process of the driver. The call ends in Returned or Raised."""

    def abort(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """Abort a batch in another process of the driver. The call ends in Returned."""

    def resume(self, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        """Continue with the responses. There are fewer responses than requests if a request got an
        error code or no response."""
