"""Transactional ids of task attempts: `<sinkId>/<generation>/<process>.<number>`.

An id is given to at most one attempt of a batch, whatever Spark does (retries, another attempt of
the stage, speculation): each Python worker process has ids of its own, and runs one task at a time.
PySpark does not tell a task the attempt of its stage, so the driver cannot give ids to partitions.
The ids are used again by the batches that follow in the same process. Spark ends processes that are
idle for a minute: with longer triggers every batch has new ones, and the broker keeps each for
days.
"""

from __future__ import annotations

from dataclasses import dataclass

from .messages import Plan


@dataclass(frozen=True, slots=True)
class ProcessIds:
    """The ids of one process for one sink. `process`: a name that no other process has. `used`: how
    many the newest batch has taken here; `late`: how many went to attempts of older batches."""

    process: str
    generation: int = 0
    done: int = -1
    used: int = 0
    late: int = 0

    def take(self, plan: Plan) -> tuple[ProcessIds, str]:
        """An id for an attempt of a planned batch.

        A newer batch is planned when everything before it is done: ids begin anew. An attempt of an
        older one comes after its batch was decided: it may hold an id for ever, so that is never
        used again.
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
    """The generation of a task attempt's id; None for an id that is none of this sink."""
    if not transactional_id.startswith(f"{sink_id}/"):
        return None
    number, slash, name = transactional_id[len(sink_id) + 1 :].partition("/")
    if not slash or "/" in name or not number.isdecimal():
        return None
    return int(number)
