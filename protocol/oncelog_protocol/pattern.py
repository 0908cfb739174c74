"""Regular expressions from users, matched in linear time, so that no pattern can block the event
loop (scenario H31). The syntax is that of RE2 (the library of Kafka's broker), without Unicode
classes, named classes, flags and word boundaries. No construct of this syntax needs backtracking. A
pattern must match the whole text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog_protocol.character_ranges import DIGIT, WORD, Ranges, others

# The first limit is RE2's maximum of a repetition (`x{1000}`). The other limits are for one
# pattern: the number of its steps, of the steps that all its matches reach together, of cached
# results, and of nested groups.
MOST_REPEATS: Final = 1_000
MOST_STEPS: Final = 10_000
MOST_EFFORT: Final = 300_000
MOST_CACHED: Final = 500
MOST_NESTED: Final = 100

_SPACE: Final[Ranges] = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_CLASSES: Final = {"d": DIGIT, "w": WORD, "s": _SPACE}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class PatternError(ValueError):
    """A pattern with wrong syntax, or a pattern that costs too much."""


class _Step(NamedTuple):
    """A state of the automaton.

    With `ranges`, a character in one of the ranges leads to the first state of `to`. Without
    `ranges`, all states of `to` are reached without a character. With `edge`, they are reached only
    at the start of the text (`^`) or at its end (`$`).
    """

    to: list[int]
    ranges: Ranges | None = None
    edge: str = ""


class Pattern:
    """A compiled pattern, for many texts. Raises PatternError if the pattern cannot be compiled."""

    def __init__(self, source: str) -> None:
        parser = _Parser(source)
        self._steps, first, self._last = parser.steps, *parser.parse()
        self._effort = 0
        # (reached steps, next character) -> steps reached after it. All texts together have few
        # different keys.
        self._cache: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._ends: dict[frozenset[int], bool] = {}
        self._start = self._closure([first], "^")

    def matches(self, text: str) -> bool:
        """Return True if the pattern matches the whole text. Raises PatternError if the matches of
        all texts so far have cost too much."""
        reached = self._start
        cache = self._cache
        for character in text:
            after = cache.get((reached, character))
            if after is None:
                after = self._after(reached, character)
                if len(cache) >= MOST_CACHED:
                    cache.clear()
                cache[reached, character] = after
            if not after:
                return False
            reached = after
        if not text:
            return self._last in self._closure(reached, "^$")
        ends = self._ends.get(reached)
        if ends is None:
            if len(self._ends) >= MOST_CACHED:
                self._ends.clear()
            ends = self._ends[reached] = self._last in self._closure(reached, "$")
        return ends

    def _after(self, reached: frozenset[int], character: str) -> frozenset[int]:
        steps = self._steps
        self._spend(len(reached))
        return self._closure(
            (
                step.to[0]
                for step in map(steps.__getitem__, reached)
                if step.ranges is not None
                and any(first <= character <= last for first, last in step.ranges)
            ),
            "",
        )

    def _closure(self, at: Iterable[int], edges: str) -> frozenset[int]:
        """Return the steps that are reached from the steps `at` without a character. `edges` holds
        `^` at the start of the text, `$` at its end. The result includes steps with an edge that is
        not in `edges`, but no step after them. At the end of the text, `matches` calls this method
        again, with `$`."""
        found: set[int] = set()
        left = list(at)
        while left:
            index = left.pop()
            if index in found:
                continue
            found.add(index)
            step = self._steps[index]
            if step.ranges is None and (not step.edge or step.edge in edges):
                left += step.to
        self._spend(len(found))
        return frozenset(found)

    def _spend(self, effort: int) -> None:
        self._effort += effort
        if self._effort > MOST_EFFORT:
            raise PatternError("the pattern is too costly")


class _Parser:
    """A recursive descent parser that makes steps (Thompson's construction). Each part of a pattern
    is a pair: its first and its last step."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0
        self.steps: list[_Step] = []

    def parse(self) -> tuple[int, int]:
        whole = self._alternatives()
        if self._at < len(self._source):
            raise PatternError(f"unexpected {self._source[self._at]!r} at {self._at}")
        return whole

    # -- the automaton

    def _step(self, ranges: Ranges | None = None, edge: str = "") -> int:
        if len(self.steps) >= MOST_STEPS:
            raise PatternError("the pattern is too large")
        self.steps.append(_Step([], ranges, edge))
        return len(self.steps) - 1

    def _link(self, step: int, target: int) -> None:
        self.steps[step].to.append(target)

    def _single(self, ranges: Ranges | None = None, edge: str = "") -> tuple[int, int]:
        first, last = self._step(ranges, edge), self._step()
        self._link(first, last)
        return first, last

    # -- the grammar

    def _alternatives(self) -> tuple[int, int]:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise PatternError("the pattern is nested too deeply")
        first, last = self._step(), self._step()
        while True:
            begin, end = self._sequence()
            self._link(first, begin)
            self._link(end, last)
            if not self._take("|"):
                self._depth -= 1
                return first, last

    def _sequence(self) -> tuple[int, int]:
        first = last = self._step()
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            begin, end = self._repeated()
            self._link(last, begin)
            last = end
        return first, last

    def _repeated(self) -> tuple[int, int]:
        start = self._at
        part = self._atom()
        end = self._at
        counts = self._counts()
        if counts is None:
            return part
        if self._peek() in {"*", "+", "?"} or self._counts() is not None:
            raise PatternError("invalid nested repetition operator")
        after = self._at
        least, most = counts
        first = last = self._step()
        for turn in range(max(least, most or 0, 1)):
            if turn:  # parse the same text again: each repetition has steps of its own
                self._at = start
                part = self._atom()
                assert self._at == end
            if turn >= least:
                self._link(last, part[1])
            self._link(last, part[0])
            last = part[1]
        if most is None:
            self._link(last, part[0])
        if most == 0:
            first = last = self._step()
        self._at = after
        return first, last

    def _counts(self) -> tuple[int, int | None] | None:
        """Parse a repetition. Return its minimum and its maximum (None without a limit); None if
        there is no repetition. A following `?` (lazy) is skipped: it has no effect on a match of
        the whole text."""
        counts: tuple[int, int | None] | None = None
        if self._take("*"):
            counts = (0, None)
        elif self._take("+"):
            counts = (1, None)
        elif self._take("?"):
            counts = (0, 1)
        elif self._peek() == "{":
            end = self._source.find("}", self._at)
            least, comma, most = self._source[self._at + 1 : end].partition(",")
            # Any other text in braces is literal, as in RE2.
            if end > 0 and least.isdecimal() and (most.isdecimal() or not most):
                self._at = end + 1
                counts = int(least), (int(most) if most else None if comma else int(least))
                if max(counts[0], counts[1] or 0) > MOST_REPEATS or (
                    counts[1] is not None and counts[1] < counts[0]
                ):
                    raise PatternError("bad repetition")
        if counts is not None:
            self._take("?")
        return counts

    def _atom(self) -> tuple[int, int]:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._single(self._class())
        if character == ".":
            return self._single(others((("\n", "\n"),)))
        if character in "^$":
            return self._single(edge=character)
        if character in "*+?":
            raise PatternError(f"nothing to repeat at {self._at - 1}")
        if character == "\\":
            return self._escape()
        return self._single(((character, character),))

    def _group(self) -> tuple[int, int]:
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name, closed, _ = self._source[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise PatternError("bad name of a group")
                self._at += len(name) + 1
            elif not self._take(":"):
                raise PatternError("a group of a kind that is not supported")
        inside = self._alternatives()
        if not self._take(")"):
            raise PatternError("a group that is not closed")
        return inside

    def _escape(self) -> tuple[int, int]:
        character = self._next()
        if character in "Az":
            return self._single(edge="^" if character == "A" else "$")
        if character == "Q":
            quoted, _, _ = self._source[self._at :].partition("\\E")
            self._at = min(self._at + len(quoted) + 2, len(self._source))
            first = last = self._step()
            for character in quoted:
                begin, end = self._single(((character, character),))
                self._link(last, begin)
                last = end
            return first, last
        return self._single(self._escaped(character))

    def _escaped(self, character: str) -> Ranges:
        """Return the characters that `\\character` matches, within a class or outside."""
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return ranges if character.islower() else others(ranges)
        if character in _CONTROLS:
            character = _CONTROLS[character]
        elif character == "x":
            character = self._hexadecimal()
        elif character.isalnum() or not character.isascii():
            raise PatternError(f"invalid escape \\{character}")
        return ((character, character),)

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits, closed, _ = self._source[self._at :].partition("}")
            self._at += len(digits) + len(closed)
        else:
            digits = self._source[self._at : self._at + 2]
            self._at += 2
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError) as error:
            raise PatternError("bad hexadecimal escape") from error

    def _class(self) -> Ranges:
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        while not self._take("]") or not ranges:
            character = "]" if not ranges and self._source[self._at - 1] == "]" else self._next()
            if character == "[" and self._peek() == ":":
                raise PatternError("named classes are not supported")
            if character == "\\":
                found = self._escaped(self._next())
                if len(found) > 1 or found[0][0] != found[0][1]:
                    ranges += found
                    continue
                character = found[0][0]
            last = character
            if self._peek() == "-" and self._source[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                last = self._next()
                if last == "\\":
                    last = self._escaped(self._next())[-1][1]
            if last < character:
                raise PatternError(f"invalid range {character}-{last}")
            ranges.append((character, last))
        return others(tuple(ranges)) if negated else tuple(ranges)

    # -- the text

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        if not self._source.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _next(self) -> str:
        if self._at >= len(self._source):
            raise PatternError("the pattern ends too early")
        self._at += 1
        return self._source[self._at - 1]
