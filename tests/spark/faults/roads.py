"""The faults that a run of the pipeline needs to reach a step of the protocol. Some steps need
none, because every run reaches them."""

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
    # PLAN_JANITOR aborts open transactions that it finds. The fence of a new generation has already
    # aborted those of older generations, so one of the current generation must be open.
    CommitKind.GROUP: Road(late_attempt=True),
    CommitKind.RECORD: Road(before=("commit.read.before", "abort.read.before")),
}


def road_to(step: Step, kind: CommitKind) -> Road:
    """Return the road to a step. A step that is in neither table needs no fault."""
    return _JANITOR[kind] if step is Step.PLAN_JANITOR else _ROADS.get(step, Road())
