"""Defects of the Spark sink's state machines. Each breaks an assumption of the protocol's proof.
The model in `tests/spark/model` finds each defect, and prints a shortest sequence of steps that
shows it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SINK: Final = "client/oncelog_client/spark/sink/protocol"
_MODEL: Final = ("tests/spark/model/test_model.py",)

SINK_MUTANTS: Final = (
    Mutant(
        "S1",
        "ids of task attempts are the same in every generation",
        f"{_SINK}/ids.py",
        '    return f"{plan.sink_id}/{plan.generation}/{name}"\n',
        '    return f"{plan.sink_id}/0/{name}"\n',
        _MODEL,
    ),
    Mutant(
        "S2",
        "a COMMIT record without DONE counts as done",
        f"{_SINK}/planning.py",
        "    unfinished = result.unfinished\n    if unfinished is not None:\n",
        "    unfinished = result.unfinished\n"
        "    if unfinished is not None:\n"
        "        settled = unfinished.state\n"
        "        return _open(replace(state, stored=settled, done=settled.offset))\n"
        "    if unfinished is not None:\n",
        _MODEL,
    ),
    Mutant(
        "S3",
        "the stored state is read before the fence, not after it",
        f"{_SINK}/planning.py",
        "    step = 1 << min(state.refused, MOST_DOUBLINGS)\n"
        "    return _fence(state, max(newest + 1, state.number + step - 1))\n"
        "\n\n"
        "def _fence(state: Planning, number: int) -> Next:\n"
        "    state = replace(state, phase=PlanningPhase.FENCE, number=number, begun=None)\n"
        "    return state, FenceParent(Step.PLAN_FENCE, number)\n"
        "\n\n"
        "def _fenced(state: Planning, result: Fenced) -> Next:\n",
        "    state = replace(state, stored=stored, open_ids=result.open_ids, done=done)\n"
        "    step = 1 << min(state.refused, MOST_DOUBLINGS)\n"
        "    return _fence(state, max(newest + 1, state.number + step - 1))\n"
        "\n\n"
        "def _fence(state: Planning, number: int) -> Next:\n"
        "    state = replace(state, phase=PlanningPhase.FENCE, number=number, begun=None)\n"
        "    return state, FenceParent(Step.PLAN_FENCE, number)\n"
        "\n\n"
        "def _fenced(state: Planning, result: Fenced) -> Next:\n"
        "    return _open(replace(state, parent=result.parent, refused=0))\n",
        _MODEL,
    ),
    Mutant(
        "S4",
        "a fenced driver continues",
        f"{_SINK}/committing.py",
        "    (CommittingPhase.DECIDE, Outdated): _fenced,\n",
        "    (CommittingPhase.DECIDE, Outdated): _decided,\n",
        _MODEL,
    ),
    Mutant(
        "S5",
        "Python processes use the same ids for their attempts",
        f"{_SINK}/ids.py",
        '        return taken, member_id(plan, f"{self.process}.{used}")\n',
        '        return taken, member_id(plan, f"p.{used}")\n',
        _MODEL,
    ),
    Mutant(
        "S6",
        "an abort also aborts a batch that was decided",
        f"{_SINK}/aborting.py",
        "    stored = result.state\n    return (\n",
        "    stored = result.state\n    return False and (\n",
        _MODEL,
    ),
    Mutant(
        "S7",
        "a batch that is done counts as not done",
        f"{_SINK}/admission.py",
        "        return stored.offset\n",
        "        return 0\n",
        _MODEL,
    ),
    Mutant(
        "S8",
        "the parent producer has the same epoch in each batch",
        f"{_SINK}/planning.py",
        "    if state.intent.kind is CommitKind.GROUP:\n        return replace(state, phase=",
        "    if False:\n        return replace(state, phase=",
        _MODEL,
    ),
    Mutant(
        "S9",
        "another attempt of a task has the same id",
        f"{_SINK}/ids.py",
        "        taken = ProcessIds(self.process, *batch, used + 1, self.late)\n",
        "        taken = ProcessIds(self.process, *batch, used, self.late)\n",
        _MODEL,
    ),
    Mutant(
        "S10",
        "a commit that lacks the transaction of a member counts as decided",
        f"{_SINK}/committing.py",
        "    (CommittingPhase.DECIDE, MemberGone): _gone,\n",
        "    (CommittingPhase.DECIDE, MemberGone): _decided,\n",
        _MODEL,
    ),
    Mutant(
        "S11",
        "a refused generation doubles the number of the next one",
        f"{_SINK}/planning.py",
        "    step = 1 << min(state.refused, MOST_DOUBLINGS)\n"
        "    return _fence(state, max(newest + 1, state.number + step - 1))\n",
        "    return _fence(state, max(newest + 1, 2 * state.number))\n",
        _MODEL,
    ),
)
