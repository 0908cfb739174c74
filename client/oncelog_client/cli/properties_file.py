"""Reads files of Java properties, as java.util.Properties.load does: comments, escapes, and lines
that a backslash continues. A file of Kafka's clients often has a JAAS configuration on several
lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# The end of a name: the first blank, `=` or `:` that no backslash escapes.
_NAME: Final = r"(?:[^\\=: \t\f]|\\.)*"
_SEPARATOR: Final = r"[ \t\f]*[=:]?[ \t\f]*"
_ESCAPE: Final = r"\\(u[0-9a-fA-F]{4}|.)"


class PropertiesError(ValueError):
    """A line has no value. The message has the number of the line, and no text of the file, because
    the line may be a secret."""


class Property(NamedTuple):
    """A name and its value, which keeps the blanks at its end."""

    name: str
    value: str


def parse_properties(text: str, *, allow_bare_names: bool = False) -> list[Property]:
    """Return the properties of a file in order. Raises PropertiesError for a name without a
    separator, unless `allow_bare_names` is true: then its value is empty, as in Java."""
    return [_property(*line, allow_bare_names) for line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is no comment and not empty, with its number and with the lines that
    continue it. A line that continues another loses the blanks at its start."""
    start, line = 0, ""
    is_continued = False
    for number, part in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        part = part.lstrip(_BLANKS)
        if not is_continued:
            if not part or part[0] in "#!":
                continue
            start, line = number, ""
        backslashes = len(part) - len(part.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        line += part[:-1] if is_continued else part
        if not is_continued:
            yield start, line
    if is_continued:
        yield start, line


def _property(number: int, line: str, allow_bare_names: bool) -> Property:
    name = re.match(_NAME, line)
    assert name is not None
    separator = re.compile(_SEPARATOR).match(line, name.end())
    assert separator is not None
    if not allow_bare_names and (not separator[0] or not name[0]):
        raise PropertiesError(f"line {number} is not name=value")
    return Property(_unescaped(name[0]), _unescaped(line[separator.end() :]))


def _unescaped(text: str) -> str:
    return re.sub(_ESCAPE, _character, text, flags=re.DOTALL)


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
