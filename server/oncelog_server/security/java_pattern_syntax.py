"""The syntax of java.util.regex.Pattern, as far as `java_pattern` matches it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from oncelog_protocol.character_ranges import DIGIT, WORD, Ranges, others

# The largest number in a repetition, and the maximum depth of nested groups.
MOST_REPEATS: Final = 1_000
MOST_NESTED: Final = 100

_SPACE: Final[Ranges] = (("\t", "\r"), (" ", " "))
_CLASSES: Final = {"d": DIGIT, "w": WORD, "s": _SPACE}
_TERMINATORS: Final = (("\n", "\n"), ("\r", "\r"), ("\x85", "\x85"), ("\u2028", "\u2029"))
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEXADECIMAL: Final = {"x": 2, "u": 4}

# The constructs that are refused, by the letter behind `\`.
_REFUSED_ESCAPES: Final = {
    **dict.fromkeys("123456789k", "a reference to a group"),
    **dict.fromkeys("bB", "a word boundary"),
    **dict.fromkeys("pP", "a Unicode class"),
    "0": "an octal number",
    "c": "a control character",
    "G": "the end of the previous match",
    "N": "a character by its name",
    **dict.fromkeys("hHvVRX", "a class of spaces or line ends"),
}
_REFUSED_GROUPS: Final = (
    ("<=", "a lookbehind"),
    ("<!", "a lookbehind"),
    ("=", "a lookahead"),
    ("!", "a lookahead"),
    (">", "an independent group"),
)


class JavaPatternError(ValueError):
    """The pattern is wrong, or has a construct that is not supported. The message continues a
    sentence about the pattern."""


class Edge(NamedTuple):
    """`^`, `$` (the end, or before a last line terminator), or `z` (the very end)."""

    kind: str


class Group(NamedTuple):
    inside: Node
    number: int


class Sequence(NamedTuple):
    parts: tuple[Node, ...]


class Alternatives(NamedTuple):
    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None
    is_lazy: bool


Node = Edge | Group | Sequence | Alternatives | Repeat | Ranges


class Syntax(NamedTuple):
    """The tree of a pattern, the number of its groups, and the indexes of its named groups."""

    root: Node
    groups: int
    names: dict[str, int]


def parsed(source: str) -> Syntax:
    """Return the tree of a pattern. Raises JavaPatternError."""
    parser = _Parser(source)
    root = parser.parse()
    return Syntax(root, parser.groups, parser.names)


def _is_nullable(node: Node) -> bool:
    """Return True if the part can match the empty text."""
    match node:
        case Edge():
            return True
        case Group(inside, _):
            return _is_nullable(inside)
        case Sequence(parts):
            return all(map(_is_nullable, parts))
        case Alternatives(parts):
            return any(map(_is_nullable, parts))
        case Repeat(part, least, _, _):
            return least == 0 or _is_nullable(part)
    return False


class _Parser:
    """A recursive descent parser."""

    def __init__(self, source: str) -> None:
        self._ignores_case = source.startswith("(?i)")
        self._source = source
        self._at = len("(?i)") if self._ignores_case else 0
        self._depth = 0
        self.groups = 0
        self.names: dict[str, int] = {}

    def parse(self) -> Node:
        root = self._alternatives()
        if self._at < len(self._source):
            raise JavaPatternError("has a ) without its (")
        return root

    def _alternatives(self) -> Node:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise JavaPatternError("has too many groups inside each other")
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        counts = self._counts()
        if counts is None:
            return part
        least, most = counts
        is_lazy = self._take("?")
        if self._take("+"):
            raise JavaPatternError("has a possessive repetition, which is not supported")
        if self._peek() in ("*", "+", "?", "{"):
            raise JavaPatternError("repeats a repetition")
        if _is_nullable(part) and (least, most) != (0, 1):
            # The groups that Java finds after an empty repetition depend on its backtracking.
            raise JavaPatternError("repeats a part that can be empty, which is not supported")
        return Repeat(part, least, most, is_lazy)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if self._peek() != "{":
            return None
        found = re.compile(r"\{(\d{1,9})(,(\d{1,9})?)?\}", re.ASCII).match(self._source, self._at)
        if found is None:
            raise JavaPatternError("has an illegal repetition")
        self._at = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise JavaPatternError(f"has a repetition out of order, or above {MOST_REPEATS}")
        return least, most

    def _atom(self) -> Node:
        letter = self._next()
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._class()
        if letter == ".":
            return others(_TERMINATORS)
        if letter in "^$":
            return Edge(letter)
        if letter in "*+?{":
            raise JavaPatternError(f"has a {letter} with nothing to repeat")
        if letter == "\\":
            return self._escape()
        return self._folded(((letter, letter),))

    def _group(self) -> Node:
        number = 0
        if not self._take("?"):
            self.groups += 1
            number = self.groups
        elif not self._take(":"):
            number = self._named_group()
        inside = self._alternatives()
        if not self._take(")"):
            raise JavaPatternError("has a ( without its )")
        return Group(inside, number) if number else inside

    def _named_group(self) -> int:
        for sign, construct in _REFUSED_GROUPS:
            if self._source.startswith(sign, self._at):
                raise JavaPatternError(f"has {construct}, which is not supported")
        found = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self._source, self._at)
        if found is None:
            raise JavaPatternError("has flags, which are not supported but for (?i) at the start")
        if found[1] in self.names:
            raise JavaPatternError(f"has two groups with the name {found[1]}")
        self._at = found.end()
        self.groups += 1
        self.names[found[1]] = self.groups
        return self.groups

    def _escape(self) -> Node:
        letter = self._next()
        if letter == "A":
            return Edge("^")
        if letter in "Zz":
            return Edge("$" if letter == "Z" else "z")
        if letter == "Q":
            quoted, _, _ = self._source[self._at :].partition("\\E")
            self._at = min(self._at + len(quoted) + len("\\E"), len(self._source))
            if self._peek() in ("*", "+", "?", "{") and self._peek():
                raise JavaPatternError("repeats a quoted text, which is not supported")
            return Sequence(tuple(self._folded(((each, each),)) for each in quoted))
        if letter.lower() in _CLASSES:
            return _predefined(letter)
        character = self._escaped(letter)
        return self._folded(((character, character),))

    def _escaped(self, letter: str) -> str:
        """Return the character that `\\letter` stands for, within a class or outside."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in _HEXADECIMAL:
            return self._hexadecimal(_HEXADECIMAL[letter])
        if letter in _REFUSED_ESCAPES:
            construct = _REFUSED_ESCAPES[letter]
            raise JavaPatternError(f"has {construct} (\\{letter}), which is not supported")
        if letter.isascii() and letter.isalnum():
            raise JavaPatternError(f"has the unknown escape \\{letter}")
        return letter

    def _hexadecimal(self, digits: int) -> str:
        found = re.compile(rf"[0-9a-fA-F]{{{digits}}}").match(self._source, self._at)
        if found is None:
            raise JavaPatternError("has an illegal hexadecimal number")
        self._at = found.end()
        return chr(int(found[0], 16))

    def _class(self) -> Ranges:
        is_negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        while not ranges or self._peek() != "]":
            letter = self._next()
            if letter == "[":
                raise JavaPatternError("has a class inside of a class, which is not supported")
            if letter == "&" and self._peek() == "&":
                raise JavaPatternError("has an intersection of classes, which is not supported")
            if letter == "\\":
                letter = self._next()
                if letter.lower() in _CLASSES:
                    ranges += _predefined(letter)
                    if self._peek() == "-" and self._source[self._at + 1 : self._at + 2] != "]":
                        raise JavaPatternError("has a range that begins with a class")
                    continue
                letter = self._in_class(letter)
            ranges.append((letter, self._end_of_range(letter)))
        self._at += 1
        folded = self._folded(tuple(ranges))
        return others(folded) if is_negated else folded

    def _end_of_range(self, first: str) -> str:
        if self._peek() != "-" or self._source[self._at + 1 : self._at + 2] in ("]", "", "["):
            return first
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._in_class(self._next())
        if last < first:
            raise JavaPatternError(f"has the illegal range {first}-{last}")
        return last

    def _in_class(self, letter: str) -> str:
        if letter in ("Q", "E"):
            raise JavaPatternError("has a quoted text inside of a class, which is not supported")
        return self._escaped(letter)

    def _folded(self, ranges: Ranges) -> Ranges:
        """Return the ranges with the other case of their letters, if the pattern ignores case. Java
        does so for ASCII alone."""
        if not self._ignores_case:
            return ranges
        found = list(ranges)
        for first, last in ranges:
            for low, high, offset in (("A", "Z", 32), ("a", "z", -32)):
                start, end = max(first, low), min(last, high)
                if start <= end:
                    found.append((chr(ord(start) + offset), chr(ord(end) + offset)))
        return tuple(found)

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        if not self._source.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _next(self) -> str:
        if self._at >= len(self._source):
            raise JavaPatternError("ends too early")
        self._at += 1
        return self._source[self._at - 1]


def _predefined(letter: str) -> Ranges:
    ranges = _CLASSES[letter.lower()]
    return ranges if letter.islower() else others(ranges)
