"""Transactional ids of task attempts: `<sinkId>/<generation>/<process>.<number>`.

No two attempts of a batch have the same id, whatever Spark does (retries, another attempt of the
stage, speculation): each Python worker process has its own ids and runs one task at a time. The
driver cannot assign ids to partitions, because a task of PySpark does not know the number of its
stage's attempt. Later batches in the same process reuse the ids. Spark ends processes that are idle
for a minute. So with longer triggers every batch has new ids, and the broker keeps an id for days.
"""

from __future__ import annotations

from dataclasses import dataclass

from .messages import Plan


@dataclass(frozen=True, slots=True)
class ProcessIds:
    """The ids of one process for one sink. `process`: a name that no other process has.
    `generation` and `done`: those of the newest batch's plan. `used`: the number of ids that
    attempts of the newest batch have taken here. `late`: the number of ids that attempts of older
    batches have taken after the newest batch was known."""

    process: str
    generation: int = 0
    done: int = -1
    used: int = 0
    late: int = 0

    def take(self, plan: Plan) -> tuple[ProcessIds, str]:
        """Return the changed ProcessIds, and an id for an attempt of the planned batch.

        A newer batch is planned when all earlier batches are done, so the ids of a newer batch
        start from 0 again. An attempt of an older batch begins after that batch was decided, and
        may hold its id for any time. So its id is never reused.
        """
        batch, newest = (plan.generation, plan.done), (self.generation, self.done)
        if batch < newest:
            taken = ProcessIds(self.process, *newest, self.used, self.late + 1)
            return taken, member_id(plan, f"{self.process}.late-{self.late}")
        used = self.used if batch == newest else 0
        taken = ProcessIds(self.process, *batch, used + 1, self.late)
        return taken, member_id(plan, f"{self.process}.{used}")


def member_id(plan: Plan, name: str) -> str:
    return f"{plan.sink_id}/{plan.generation}/{name}"


def generation_of(sink_id: str, transactional_id: str) -> int | None:
    """Return the generation of a task attempt's id, or None for an id of another sink."""
    if not transactional_id.startswith(f"{sink_id}/"):
        return None
    number, slash, name = transactional_id[len(sink_id) + 1 :].partition("/")
    if not slash or "/" in name or not number.isdecimal():
        return None
    return int(number)
