"""The sink as the model's Spark sees it. Each call of Spark runs a machine in its own process, and
the machine sends requests to a broker."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import Plan, TaskMessage
from oncelog_client.spark.sink.protocol.steps import Generation, Planned, Raised, Returned

from .broker import Broker
from .requests import Reply, Request, Row


class Asks(NamedTuple):
    """A machine that waits for the responses to `requests`, which it sends in order. Unless
    `is_pipelined`, an error code stops the requests after it."""

    state: Hashable
    requests: tuple[Request, ...]
    is_pipelined: bool = False


class Written(NamedTuple):
    """The end of a task: its message, or None for a failed task."""

    message: TaskMessage | None


Turn = Asks | Planned | Written | Returned | Raised


class Sink(Protocol):
    """One back-end with the sink's machines. Every method is pure, and its result can be hashed."""

    @property
    def shows_parts(self) -> bool:
        """Return True if readers may see a part of a batch for a while after its decision."""

    def decided(self, broker: Broker) -> int:
        """Return the number of batches that durable data decides."""

    def plan(self, query_id: str, begun: Generation | None) -> Turn:
        """Plan in a Python process of the driver, which may have begun a generation. The call ends
        in Planned or Raised."""

    def write(
        self, plan: Plan, attempt: Attempt, transactional_id: str, rows: tuple[Row, ...]
    ) -> Turn:
        """Write in a Python process of an executor. The call ends in Written."""

    def commit(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """Commit in another process of the driver. The call ends in Returned or Raised."""

    def abort(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """Abort in another process of the driver. The call ends in Returned."""

    def resume(self, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        """Continue with the responses. There are fewer responses than requests if a request got an
        error code or no response."""
