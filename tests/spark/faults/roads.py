"""How a run of the pipeline comes to a step of the protocol: by itself, or only after something has
gone wrong before."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import Step


class Road(NamedTuple):
    """`before`: the fail points that end an earlier run. `along`: those met in the same run, before
    the step. `poisoned`: the run has rows that cannot be written. `late_attempt`: an attempt of the
    last batch writes before it (`late_attempt.write_late`)."""

    before: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    poisoned: bool = False
    late_attempt: bool = False


# A batch that was planned and did not end well is planned anew, in a new generation.
_NEW_GENERATION: Final = Road(before=("commit.read.before",))
_COMMIT_FAILS: Final = Road(along=("commit.decide.before",))

_ROADS: Final[dict[Step, Road]] = {
    Step.PLAN_FENCE: _NEW_GENERATION,
    Step.PLAN_READ_AGAIN: _NEW_GENERATION,
    Step.PLAN_OPEN: _NEW_GENERATION,
    # Neither the commit nor the abort after it comes to an end.
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
    # The fence of a new generation has aborted the older ones': what is left is of the same one.
    CommitKind.GROUP: Road(late_attempt=True),
    CommitKind.RECORD: Road(before=("commit.read.before", "abort.read.before")),
}


def road_to(step: Step, kind: CommitKind) -> Road:
    """Of a step that is in neither table: every run comes to it."""
    return _JANITOR[kind] if step is Step.PLAN_JANITOR else _ROADS.get(step, Road())
