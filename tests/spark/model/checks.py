"""The invariants that hold in every reachable world (state of the model). One invariant is that
the query can still end."""

from __future__ import annotations

from collections.abc import Iterator

from .events import Events
from .faults import successor
from .requests import Row
from .sinks import Sink
from .world import Budget, Checkpoint, Phase, Size, World

# More steps than any undisturbed query needs.
MOST_STEPS_TO_THE_END = 400


class Checks:
    """Checks of worlds of one size with one sink. `_ends_well`: worlds from which the query was
    seen to end. `_good_rows`: visible rows without a violation, with the checkpoint and the number
    of decided batches."""

    def __init__(self, sink: Sink, size: Size) -> None:
        self._sink = sink
        self._size = size
        self._events = Events(sink, size)
        self._ends_well: set[World] = set()
        self._good_rows: set[tuple[tuple[Row, ...], Checkpoint, int]] = set()

    def __call__(self, world: World) -> Iterator[str]:
        yield from self._rows(world)
        yield from self._ending(world)

    def _rows(self, world: World) -> Iterator[str]:
        key = (world.broker.visible, world.checkpoint, self._sink.decided(world.broker))
        if key not in self._good_rows:
            wrong = list(self._wrong_rows(*key))
            if not wrong:
                self._good_rows.add(key)
            yield from wrong

    def _wrong_rows(
        self, visible: tuple[Row, ...], checkpoint: Checkpoint, decided: int
    ) -> Iterator[str]:
        seen = set(visible)
        if len(seen) < len(visible):
            yield f"{next(row for row in visible if visible.count(row) > 1)} is visible twice"
        size = self._size
        for batch_id in range(size.batches):
            rows = [
                Row(checkpoint.query_id, batch_id, partition)
                for partition in range(size.partitions)
                if (batch_id, partition) not in size.empty
            ]
            there = sum(row in seen for row in rows)
            if batch_id <= checkpoint.committed and there < len(rows):
                yield (
                    f"Spark has committed batch {batch_id}, but only {there} of its {len(rows)} "
                    "rows are visible"
                )
            if there and batch_id >= decided:
                yield f"{there} rows of batch {batch_id} are visible, but the batch is not decided"
            if 0 < there < len(rows) and not self._sink.shows_parts:
                yield f"only {there} of {len(rows)} rows of batch {batch_id} are visible"

    def _ending(self, world: World) -> Iterator[str]:
        """Run the query without further faults. Yield the first violation before its end, or the
        violation that it never ends."""
        calm = _alone(world._replace(budget=Budget(), held=()))
        way: list[World] = []
        while calm not in self._ends_well:
            way.append(calm)
            if len(way) > MOST_STEPS_TO_THE_END:
                yield "the query never ends"
                return
            if calm.drivers[0].phase is Phase.FINISHED:
                break
            calm = self._step(calm)
            wrong = next(self._rows(calm), None)
            if wrong is not None:
                yield f"{wrong}, in a run to the end without further faults"
                return
        self._ends_well.update(way)

    def _step(self, world: World) -> World:
        """Let the current driver or its tasks take a step. An operator restarts a failed query in
        the same session, with its living Python processes, as often as necessary."""
        (driver,) = world.drivers
        if driver.phase is Phase.FAILED:
            return _alone(successor(world._replace(drivers=()), self._size, heir_of=driver))
        for _, after in self._events(world):
            return _alone(after)
        raise AssertionError(f"nothing can happen in {world}")


def _alone(world: World) -> World:
    """Return the world with the current driver and its tasks only."""
    (current,) = (driver for driver in world.drivers if driver.is_current)
    mine = (current.number, current.batch_id)
    tasks = tuple(task for task in world.tasks if task[:2] == mine)
    return world._replace(drivers=(current,), tasks=tasks)
