"""The progress of long work, on standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress:
    """A count and the elapsed time on standard error during long work. They are shown only if
    standard error is a terminal and `stream`, to which the records are printed, is not."""

    def __init__(self, what: str, stream: TextIO | None, total: int | None = None) -> None:
        self._what = what
        self._total = total
        self._wanted = sys.stderr.isatty() and not (stream is not None and stream.isatty())
        self._drawn: tuple[RichProgress, TaskID] | None = None

    def __enter__(self) -> Self:
        if self._wanted:
            from rich import progress
            from rich.console import Console

            columns: list[str | progress.ProgressColumn] = [
                progress.SpinnerColumn(),
                "{task.completed:,} {task.description}",
                progress.TimeElapsedColumn(),
            ]
            if self._total is not None:
                columns.insert(1, progress.BarColumn())
            drawn = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            drawn.start()
            self._drawn = drawn, drawn.add_task(self._what, total=self._total)
        return self

    @property
    def is_drawn(self) -> bool:
        """Return True if the count is shown."""
        return self._drawn is not None

    def advance(self, completed: int) -> None:
        """Show that `completed` records, or partitions, are done."""
        if self._drawn is not None:
            drawn, task = self._drawn
            drawn.update(task, completed=completed)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()
