"""Results as a table for people, aligned text for pipes, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import click

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Row = Sequence[Any]


def show(columns: Sequence[str], rows: Sequence[Row], *, as_json: bool, title: str = "") -> None:
    """Print rows: a drawn table on a terminal, aligned columns elsewhere, or one JSON array.

    In JSON the columns become names in snake case and values keep their types; elsewhere None is a
    dash, a list is joined by commas, and so are the `name=value` of a mapping.
    """
    if as_json:
        names = [column.lower().replace(" ", "_").replace("-", "_") for column in columns]
        show_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    texts = [[_text(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, texts, rows, title)
    else:
        _align(columns, texts)


def show_json(value: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(json_text(value))


def json_text(value: Any) -> str:
    """JSON without spaces or line ends."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        value = [f"{name}={_text(part)}" for name, part in value.items()]
    if isinstance(value, list | tuple):
        return ",".join(_text(part) for part in value) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _align(columns: Sequence[str], texts: list[list[str]]) -> None:
    lines = [[column.upper() for column in columns], *texts]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _draw(columns: Sequence[str], texts: list[list[str]], rows: Sequence[Row], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in texts:
        table.add_row(*map(Text, line))
    Console().print(table)


class Progress:
    """A count and the time on standard error while something long runs; nothing unless it is a
    terminal, nor while `stream`, where the records themselves come or go, is one."""

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

    def advance(self, completed: int) -> None:
        """So many are done by now."""
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
