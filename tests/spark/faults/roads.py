"""How a run of the pipeline reaches a step of the protocol. Every run reaches some steps; other
steps need a fault first."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import Step


class Road(NamedTuple):
    """The faults that lead to a step. `before`: fail points that end an earlier run. `along`: fail
    points of the same run, before the step. `poisoned`: the run has rows that cannot be written.
    `late_attempt`: an attempt of the last batch writes before the run (see `write_late`)."""

    before: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    poisoned: bool = False
    late_attempt: bool = False


# Spark plans an unfinished batch again, in a new generation.
_NEW_GENERATION: Final = Road(before=("commit.read.before",))
_COMMIT_FAILS: Final = Road(along=("commit.decide.before",))

_ROADS: Final[dict[Step, Road]] = {
    Step.PLAN_FENCE: _NEW_GENERATION,
    Step.PLAN_READ_AGAIN: _NEW_GENERATION,
    Step.PLAN_OPEN: _NEW_GENERATION,
    # The first run completes neither the commit nor the abort after it.
    Step.PLAN_ROLL_FORWARD: Road(before=("commit.decide.after", "abort.read.before")),
    Step.TASK_ABORT: Road(poisoned=True),
    # The first attempt dies with its transaction open.
    Step.COMMIT_LOSERS: Road(along=("task.hand-over.after",)),
    Step.ABORT_READ: _COMMIT_FAILS,
    Step.ABORT_FENCE: _COMMIT_FAILS,
    Step.ABORT_READ_AGAIN: _COMMIT_FAILS,
    Step.ABORT_MEMBERS: _COMMIT_FAILS,
}


_JANITOR: Final = {
    # The fence of a new generation aborts the transactions of older generations. The open
    # transaction must therefore belong to the current generation.
    CommitKind.GROUP: Road(late_attempt=True),
    CommitKind.RECORD: Road(before=("commit.read.before", "abort.read.before")),
}


def road_to(step: Step, kind: CommitKind) -> Road:
    """Return the road to a step. A step that is in neither table needs no fault."""
    return _JANITOR[kind] if step is Step.PLAN_JANITOR else _ROADS.get(step, Road())
