"""The way in which a run of the pipeline reaches a step of the protocol: in every run, or only
after a fault."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import Step


class Road(NamedTuple):
    """`before`: fail points that end an earlier run. `along`: those reached in the same run, before
    the step. `poisoned`: the run has rows that cannot be written. `late_attempt`: an attempt of the
    last batch writes before the run (`late_attempt.write_late`)."""

    before: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    poisoned: bool = False
    late_attempt: bool = False


# A batch that was planned and not completed is planned again, in a new generation.
_NEW_GENERATION: Final = Road(before=("commit.read.before",))
_COMMIT_FAILS: Final = Road(along=("commit.decide.before",))

_ROADS: Final[dict[Step, Road]] = {
    Step.PLAN_FENCE: _NEW_GENERATION,
    Step.PLAN_READ_AGAIN: _NEW_GENERATION,
    Step.PLAN_OPEN: _NEW_GENERATION,
    # Neither the commit nor the abort after it is completed.
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
    # The fence of a new generation has aborted transactions of older ones, so the rest is of the
    # same generation.
    CommitKind.GROUP: Road(late_attempt=True),
    CommitKind.RECORD: Road(before=("commit.read.before", "abort.read.before")),
}


def road_to(step: Step, kind: CommitKind) -> Road:
    """Return the road of a step that is in neither table: every run reaches it."""
    return _JANITOR[kind] if step is Step.PLAN_JANITOR else _ROADS.get(step, Road())
