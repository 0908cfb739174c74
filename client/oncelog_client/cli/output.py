"""Results as a table for people, aligned text for pipes, JSON and CSV for scripts.

A command declares its columns by content (`kind`) and importance (`rank`). `show` prints rows in
the form of `--output`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

import click

from oncelog_client.cli.escaping import json_text, printable, printable_lines
from oncelog_client.cli.layout import Cell, LayoutColumn, columns_of, lay_out
from oncelog_client.cli.quantities import duration_text, size_text, time_text

F = TypeVar("F", bound=Callable[..., Any])
Row = Sequence[Any]
# The content of a column. id: a name that users copy. count, offset: a number. duration:
# milliseconds. time: milliseconds since 1970. size: bytes. partitions: a list of `topic-partition`.
# text: words.
Kind = Literal["id", "count", "offset", "duration", "time", "size", "partitions", "text"]

FORMS: Final = ("table", "wide", "json", "csv")
NUMBERS: Final = frozenset({"count", "offset", "duration", "size"})
# Maximum length of an identifier in a table. A topic's name has at most 249 characters.
LONGEST: Final = 255
ELLIPSIS: Final = "…"
DEFAULT_WIDTH: Final = 80


class Column(NamedTuple):
    """A column of a result. `heading` in snake case is the column's name in JSON and CSV.

    If a terminal is too narrow, columns with the highest `rank` are dropped first. A column of rank
    0 is never dropped. The ` ms` at the end of a duration's or a time's heading is not shown on a
    terminal. A terminal shows `label`, if there is one, in place of a long heading.
    """

    heading: str
    kind: Kind = "text"
    rank: int = 0
    label: str = ""

    @property
    def name(self) -> str:
        """Return the name in JSON and CSV."""
        return self.heading.lower().replace(" ", "_").replace("-", "_")

    @property
    def title(self) -> str:
        """Return the heading on a terminal."""
        in_ms = self.kind in {"duration", "time"}
        return self.label or (self.heading.removesuffix(" ms") if in_ms else self.heading)


def output_option(command: F) -> F:
    """Add `--output table|wide|json|csv`, and `--json`. The parameter is called `output`."""
    command = click.option(
        "--json", "output", flag_value="json", help="The same as --output json."
    )(command)
    return click.option(
        "--output",
        "output",
        type=click.Choice(FORMS),
        default="table",
        help="wide: every column.  [default: table]",
    )(command)


def show(
    columns: Sequence[Column], rows: Iterable[Row], *, output: str, empty: str = "nothing found"
) -> None:
    """Print rows in the form `output`: a table on a terminal, aligned columns elsewhere, JSON, CSV.

    Without rows, `empty` is printed on standard error, unless the form is JSON or CSV. JSON keeps
    the types of values. In JSON, CSV and aligned columns, durations and times are in milliseconds,
    and sizes in bytes. Except in JSON, lists and the `name=value` of mappings are joined by commas.
    None is empty in CSV and a dash in tables and aligned columns.
    """
    rows = list(rows)
    if output == "json":
        names = [column.name for column in columns]
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    elif output == "csv":
        _csv(columns, rows)
    elif not rows:
        note(empty)
    elif not sys.stdout.isatty():
        _align(columns, rows)
    else:
        _draw(columns, rows, sys.maxsize if output == "wide" else terminal_width())


def show_json(value: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(json_text(value))


def note(text: str) -> None:
    """Print a line for people on standard error, so that no script takes the line for a result."""
    click.echo(printable_lines(text), err=True)


def say(text: str) -> None:
    """Print lines on standard output, with control characters in identifiers escaped."""
    click.echo(printable_lines(text))


def for_people(output: str) -> bool:
    """Return True if the form of the result is for people."""
    return output in {"table", "wide"}


def terminal_width() -> int:
    """Return the number of columns of the terminal on standard output. `COLUMNS` overrides it."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and 0 < len(given) < 6 and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def _csv(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for row in rows:
        writer.writerow(["" if value is None else _csv_text(value) for value in row])
    click.echo(text.getvalue(), nl=False)


def _csv_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if isinstance(value, list | tuple | Mapping) and not value else _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | Mapping):
        return ",".join(_items(value)) or "-"
    return printable(str(value))


def _items(value: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{printable(str(name))}={_text(part)}" for name, part in value.items()]
    return [_text(part) for part in value]


def _align(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    lines = [
        [column.heading.upper() for column in columns],
        *([_text(value) for value in row] for row in rows),
    ]
    # A very long identifier must widen only its own line.
    widths = [
        max(min(columns_of(line[index]), LONGEST) for line in lines)
        for index in range(len(columns))
    ]
    for line in lines:
        cells = (
            cell + " " * (width - columns_of(cell))
            for cell, width in zip(line, widths, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def _draw(columns: Sequence[Column], rows: Sequence[Row], width: int) -> None:
    from oncelog_client.io.clock import wall_ms

    now_ms = wall_ms()
    fields = [LayoutColumn(column.title, column.rank, column.kind in NUMBERS) for column in columns]
    cells = [
        [_cell(column, value, now_ms) for column, value in zip(columns, row, strict=True)]
        for row in rows
    ]
    layout = lay_out(fields, cells, width)
    for line in layout.lines:
        click.echo(line)
    if layout.dropped:
        note(f"not shown: {', '.join(layout.dropped)} (--output wide shows all)")


def _cell(column: Column, value: Any, now_ms: int) -> Cell:
    """Return the pieces of a value for a table on a terminal."""
    if isinstance(value, list | tuple | Mapping):
        items = _items(value)
        if column.kind == "partitions":
            items = partition_ranges(items)
        return Cell(tuple(map(shortened, items)) or ("-",), ",")
    if value is not None and not isinstance(value, str):
        if column.kind == "duration":
            return Cell((duration_text(value),))
        if column.kind == "time":
            return Cell((time_text(value, now_ms),))
        if column.kind == "size":
            return Cell((size_text(value),))
    text = shortened(_text(value))
    words = text.split(" ") if column.kind == "text" else [text]
    return Cell(tuple(words))


def shortened(text: str) -> str:
    """Return `text`, or its first characters and an ellipsis if it is longer than any valid
    name."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + ELLIPSIS


def partition_ranges(partitions: Iterable[str]) -> list[str]:
    """Return `orders:0-5,9` for each topic of `orders-0`, `orders-1` and so on."""
    numbers: dict[str, list[int]] = {}
    for partition in partitions:
        topic, _, number = partition.rpartition("-")
        numbers.setdefault(topic, []).append(int(number))
    return [f"{topic}:{_ranges(sorted(found))}" for topic, found in numbers.items()]


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[tuple[int, int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1] = parts[-1][0], number
        else:
            parts.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
