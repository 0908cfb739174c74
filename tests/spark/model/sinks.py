"""The sink as the model Spark sees it: machines with requests to a broker, one for each call that
Spark makes in a process of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import Plan, TaskMessage
from oncelog_client.spark.sink.protocol.steps import Generation, Planned, Raised, Returned

from .broker import Broker
from .requests import Reply, Request, Row


class Asks(NamedTuple):
    """A machine that waits for the responses to `requests`, which are sent one after the other.
    Unless `is_pipelined`, a refusal keeps back the requests after it."""

    state: Hashable
    requests: tuple[Request, ...]
    is_pipelined: bool = False


class Written(NamedTuple):
    """The end of a task: None if it has failed."""

    message: TaskMessage | None


Turn = Asks | Planned | Written | Returned | Raised


class Sink(Protocol):
    """One back-end with the sink's machines. Every method is pure, and its result can be hashed."""

    @property
    def shows_parts(self) -> bool:
        """Whether a batch may be visible in part for a while after its decision."""

    def decided(self, broker: Broker) -> int:
        """Return the number of batches that durable data decides."""

    def plan(self, query_id: str, begun: Generation | None) -> Turn:
        """Plan, in a Python process of the driver with its earlier generation. Ends in Planned or
        Raised."""

    def write(
        self, plan: Plan, attempt: Attempt, transactional_id: str, rows: tuple[Row, ...]
    ) -> Turn:
        """Write, in a Python process of an executor. Ends in Written."""

    def commit(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """Commit, in another process of the driver. Ends in Returned or Raised."""

    def abort(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        """Abort, in a process as for `commit`. Ends in Returned."""

    def resume(self, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        """Continue with the responses. There are fewer than requests if one was refused or got no
        response."""
