"""The layout of rows for a terminal. Identifiers and words of headings are never broken over two
lines.

A cell is a sequence of unbreakable pieces. Lines end only between pieces. If a table is too wide,
columns are dropped, the highest rank first. If the table is still too wide, each row becomes a
block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

GAP: Final = "  "
_INDENT: Final = "    "

Pieces = tuple[str, ...]


class Cell(NamedTuple):
    """Unbreakable pieces, and the text between two pieces on one line."""

    pieces: Pieces
    between: str = " "


class LayoutColumn(NamedTuple):
    """A column for the layout. Columns with the highest `rank` are dropped first. A column of rank
    0 is never dropped."""

    heading: str
    rank: int
    is_number: bool


class Layout(NamedTuple):
    """The lines to print, and the headings of dropped columns."""

    lines: list[str]
    dropped: list[str]


def lay_out(fields: Sequence[LayoutColumn], rows: Sequence[Sequence[Cell]], width: int) -> Layout:
    """Return a table of at most `width` characters a line. If no such table is possible, return
    blocks."""
    headings = [Cell(tuple(field.heading.split())) for field in fields]
    cells = [[headings[index], *(row[index] for row in rows)] for index in range(len(fields))]
    least = [max(_least(cell) for cell in column) for column in cells]
    shown = list(range(len(fields)))
    while sum(least[index] for index in shown) + len(GAP) * (len(shown) - 1) > width:
        droppable = [index for index in shown if fields[index].rank]
        if not droppable:
            return Layout(_blocks(fields, rows, width), [])
        shown.remove(max(droppable, key=lambda index: (fields[index].rank, index)))
    whole = [max(_whole(cell) for cell in cells[index]) for index in shown]
    widths = _widths([least[index] for index in shown], whole, width - len(GAP) * (len(shown) - 1))
    lines = _lines(fields, shown, widths, headings)
    lines.append(GAP.join("─" * width for width in widths))
    for row in rows:
        lines += _lines(fields, shown, widths, row)
    dropped = [field.heading for index, field in enumerate(fields) if index not in shown]
    return Layout(lines, dropped)


def columns_of(text: str) -> int:
    """Return the number of terminal columns of `text`. East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0
        if unicodedata.combining(character)
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


def _least(cell: Cell) -> int:
    trailing = len(cell.between.rstrip())
    return max((columns_of(piece) for piece in cell.pieces), default=0) + (
        trailing if len(cell.pieces) > 1 else 0
    )


def _whole(cell: Cell) -> int:
    return columns_of(cell.between.join(cell.pieces))


def _widths(least: list[int], whole: list[int], room: int) -> list[int]:
    """Return the widths of columns. Each column gets its minimum. The rest of `room` goes first to
    the columns that need the least additional width."""
    widths = list(least)
    rest = room - sum(widths)
    for index in sorted(range(len(widths)), key=lambda index: whole[index] - widths[index]):
        more = min(max(whole[index] - widths[index], 0), rest)
        widths[index] += more
        rest -= more
    return widths


def wrapped(cell: Cell, width: int) -> list[str]:
    """Return the lines of the cell, at most `width` wide. A wider piece has a line of its own."""
    lines: list[str] = []
    line = ""
    for index, piece in enumerate(cell.pieces):
        joined = f"{line}{cell.between}{piece}" if index else piece
        last = index == len(cell.pieces) - 1
        needed = columns_of(joined) + (0 if last else len(cell.between.rstrip()))
        if index and needed > width:
            lines.append(line + cell.between.rstrip())
            line = piece
        else:
            line = joined
    return [*lines, line]


def _lines(
    fields: Sequence[LayoutColumn], shown: list[int], widths: list[int], row: Sequence[Cell]
) -> list[str]:
    """Return the lines of one row of the table. The cell with the most lines sets their number."""
    in_lines = [wrapped(row[index], width) for index, width in zip(shown, widths, strict=True)]
    lines = []
    for number in range(max(map(len, in_lines))):
        parts = []
        for index, width, cell in zip(shown, widths, in_lines, strict=True):
            text = cell[number] if number < len(cell) else ""
            padding = " " * (width - columns_of(text))
            parts.append(padding + text if fields[index].is_number else text + padding)
        lines.append(GAP.join(parts).rstrip())
    return lines


def _blocks(
    fields: Sequence[LayoutColumn], rows: Sequence[Sequence[Cell]], width: int
) -> list[str]:
    """Return the lines of the rows as blocks: each cell begins a new line. An empty line separates
    two rows."""
    indent = max(len(field.heading) for field in fields)
    room = width - indent - len(GAP)
    lines: list[str] = []
    for row in rows:
        if lines:
            lines.append("")
        for field, cell in zip(fields, row, strict=True):
            if _least(cell) > room:
                # On a line of its own, a piece that is longer than the terminal can still be
                # copied.
                lines.append(field.heading)
                lines += [_INDENT + text for text in wrapped(cell, width - len(_INDENT))]
                continue
            first, *others = wrapped(cell, room)
            lines.append(f"{field.heading.ljust(indent)}{GAP}{first}".rstrip())
            lines += [" " * (indent + len(GAP)) + text for text in others]
    return lines
