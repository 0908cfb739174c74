"""The sink's real state machines, and the common part of both back-ends in the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from oncelog_client.spark.sink.protocol import aborting, attempts, committing, planning
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import Reason, Refusal
from oncelog_client.spark.sink.protocol.steps import (
    Command,
    Generation,
    Planned,
    Raised,
    Result,
    Returned,
)
from oncelog_client.values import TransactionMember

from .broker import Broker
from .requests import Done, EndTxn, InitProducerId, Produce, Reply, Row
from .sinks import Asks, Turn, Written

SINK_ID: Final = "S"
# The client reports an unknown outcome and ends the call.
FAILED: Final = Raised(Refusal(Reason.OUTCOME_UNKNOWN, "no answer"))

_STEPS: Final[dict[str, Callable[[Any, Result], tuple[Any, Any]]]] = {
    "planning": planning.step,
    "committing": committing.step,
    "aborting": aborting.step,
}


class Driving(NamedTuple):
    """A machine of the driver that waits for the answer to `command`. `inner`: the back-end's state
    within that command. `seen`: what the back-end has last read of its stored state."""

    machine: str
    state: Any
    command: Command
    inner: Any = None
    seen: Any = None


class Writing(NamedTuple):
    """A task attempt. `failed`: the attempt aborts its own transaction."""

    plan: Plan
    attempt: Attempt
    query_id: str | None
    rows: tuple[Row, ...]
    member: TransactionMember | None = None
    failed: bool = False


@dataclass(frozen=True)
class Machines:
    """The part of a sink that both back-ends share. `knows_query`: whether the driver can read the
    query's id in the checkpoint."""

    knows_query: bool = True
    adopts: bool = False

    kind: ClassVar[CommitKind]
    shows_parts: ClassVar[bool]

    # --- calls of Spark

    def plan(self, query_id: str, begun: Generation | None) -> Turn:
        known = query_id if self.knows_query else None
        intent = Intent(SINK_ID, self.kind, known, adopts=self.adopts)
        return self.drive("planning", planning.begin(intent, begun))

    def write(
        self, plan: Plan, attempt: Attempt, transactional_id: str, rows: tuple[Row, ...]
    ) -> Turn:
        begun = attempts.begin(plan, attempt)
        if isinstance(begun, TaskMessage):
            return Written(begun)
        if not isinstance(begun, attempts.Write):
            return Written(None)
        if not rows:
            return Written(TaskMessage(plan, begun.query_id, attempt.partition))
        state = Writing(plan, attempt, begun.query_id, rows)
        return Asks(state, (self.init_member(transactional_id, plan.generation),))

    def commit(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        return self.drive("committing", committing.begin(messages, batch_id))

    def abort(self, messages: tuple[TaskMessage | None, ...], batch_id: int) -> Turn:
        return self.drive("aborting", aborting.begin(messages, batch_id))

    def resume(self, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        if isinstance(asks.state, Writing):
            return _write_on(asks.state, replies[-1])
        assert isinstance(asks.state, Driving)
        return self.perform_on(asks.state, asks, replies)

    # --- driving

    def drive(self, machine: str, following: tuple[Any, Any], seen: Any = None) -> Turn:
        state, command = following
        if isinstance(command, Planned | Returned | Raised):
            return command
        return self.perform(Driving(machine, state, command, seen=seen))

    def answered(self, driving: Driving, answer: Result) -> Turn:
        """Continue the machine with the answer to its command."""
        following = _STEPS[driving.machine](driving.state, answer)
        return self.drive(driving.machine, following, driving.seen)

    def failed(self, driving: Driving) -> Turn:
        """Return the end of a call that a KafkaError has interrupted. `abort()` drops the error and
        returns normally. Other calls raise."""
        return Returned(committed=False) if driving.machine == "aborting" else FAILED

    # --- parts of the back-end

    def init_member(self, transactional_id: str, generation: int) -> InitProducerId:
        """Return the first request of a task."""
        raise NotImplementedError

    def perform(self, driving: Driving) -> Turn:
        """Return the first requests of a command."""
        raise NotImplementedError

    def perform_on(self, driving: Driving, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        """Continue a command after the responses."""
        raise NotImplementedError

    def decided(self, broker: Broker) -> int:
        """Return the number of batches that are decided in the broker's data."""
        raise NotImplementedError


def _write_on(state: Writing, reply: Reply) -> Turn:
    """Continue a task: initialize, write, send the message to the driver. Abort after an error."""
    if state.failed:
        return Written(None)
    if isinstance(reply, TransactionMember):
        return Asks(state._replace(member=reply), (Produce(reply, state.rows),))
    if isinstance(reply, Done):
        message = TaskMessage(
            state.plan, state.query_id, state.attempt.partition, state.member, len(state.rows)
        )
        return Written(message)
    if state.member is None:
        return Written(None)
    abort = EndTxn(state.member, False, bumps_epoch=True)
    return Asks(state._replace(failed=True), (abort,))
