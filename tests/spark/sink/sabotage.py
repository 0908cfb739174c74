"""Deletion of shuffle files in the middle of the stage that reads them. Runs in Python workers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import Row
from pyspark.taskcontext import TaskContext

DEADLINE_S = 120.0


class Sabotage:
    """Return the rows unchanged, and make the stage fail while one of its tasks still runs.

    The task of partition 0 deletes the shuffle's files when the task of partition 1 has read its
    rows. The task of partition 2 starts later and fails, because it finds no files. The task of
    partition 1 waits until another attempt of partition 1 has read the same rows.
    """

    def __init__(self, shuffles: Path, notes: Path) -> None:
        self._shuffles = shuffles
        self._notes = notes

    def __call__(self, rows: Iterable[Row]) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        mine = self._notes / f"{partition}.{context.taskAttemptId()}"
        is_first = not any(self._notes.glob(f"{partition}.*"))
        mine.write_text(str(context.attemptNumber()))
        yield from rows
        mine.with_name(f"{mine.name}.read").touch()
        if is_first and partition == 0:
            self._wait_for("1.*.read", 1)
            for file in self._shuffles.glob("**/shuffle_*"):
                file.unlink()
        elif is_first and partition == 1:
            self._wait_for("1.*.read", 2)

    def _wait_for(self, pattern: str, count: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(list(self._notes.glob(pattern))) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pattern} {count} times")
            time.sleep(0.02)
