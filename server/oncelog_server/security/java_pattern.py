"""Java's regular expressions with their groups, matched in bounded time.

The parser accepts the part of java.util.regex.Pattern that needs no backtracking, and refuses every
other construct by its name. A match keeps the threads of an automaton in the order in which Java
would try them (Pike's method), so the groups are those that Java's backtracking finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_protocol.character_ranges import Ranges
from oncelog_server.security.java_pattern_syntax import (
    Alternatives,
    Edge,
    Group,
    JavaPatternError,
    Node,
    Repeat,
    Sequence,
    parsed,
)

# The limits of one pattern: its instructions, and the steps of all threads for one text. The steps
# take about 0.2 s.
MOST_INSTRUCTIONS: Final = 10_000
MOST_STEPS: Final = 300_000

Slots = tuple[int, ...]


class TooCostly(Exception):
    """A text takes too many steps."""


class _Character(NamedTuple):
    ranges: Ranges


class _Split(NamedTuple):
    """Two threads; the first is tried first."""

    first: int
    second: int


class _Save(NamedTuple):
    slot: int


class _Assert(NamedTuple):
    edge: str


class _Match(NamedTuple):
    pass


_Instruction = _Character | _Split | _Save | _Assert | _Match


class JavaPattern:
    """A compiled pattern. Raises JavaPatternError if it cannot be compiled."""

    def __init__(self, source: str) -> None:
        syntax = parsed(source)
        self.groups = syntax.groups
        self.names = syntax.names
        self._program: list[_Instruction] = []
        self._compile(Group(syntax.root, 0))
        self._add(_Match())
        self._left = MOST_STEPS

    def full_match(self, text: str) -> bool:
        """Return True if the pattern matches the whole text (Matcher.matches). Raises TooCostly."""
        self._left = MOST_STEPS
        return self._run(text, 0, whole=True) is not None

    def find_all(self, text: str) -> Iterator[list[str | None]]:
        """Yield the matches in the text from left to right, as Matcher.find finds them: for each,
        the text before it since the last match, and then its groups. A group that took no part is
        None. The last element has only the text after the last match. Raises TooCostly."""
        self._left = MOST_STEPS
        done = start = 0
        while start <= len(text):
            slots = self._run(text, start, whole=False)
            if slots is None:
                start += 1
                continue
            pairs = zip(slots[::2], slots[1::2], strict=True)
            groups = [text[a:b] if a >= 0 and b >= 0 else None for a, b in pairs]
            yield [text[done : slots[0]], *groups]
            done = slots[1]
            start = done + (slots[0] == slots[1])
        yield [text[done:]]

    # -- the program

    def _add(self, instruction: _Instruction) -> int:
        if len(self._program) >= MOST_INSTRUCTIONS:
            raise JavaPatternError("is too large")
        self._program.append(instruction)
        return len(self._program) - 1

    def _compile(self, node: Node) -> None:
        match node:
            case Edge(kind):
                self._add(_Assert(kind))
            case Group(inside, number):
                self._add(_Save(2 * number))
                self._compile(inside)
                self._add(_Save(2 * number + 1))
            case Sequence(parts):
                for part in parts:
                    self._compile(part)
            case Alternatives(parts):
                self._compile_alternatives(parts)
            case Repeat():
                self._compile_repeat(node)
            case _:
                self._add(_Character(node))

    def _compile_alternatives(self, parts: tuple[Node, ...]) -> None:
        *firsts, last = parts
        jumps: list[int] = []
        for part in firsts:
            split = self._add(_Split(0, 0))
            self._compile(part)
            jumps.append(self._add(_Split(0, 0)))
            self._program[split] = _Split(split + 1, len(self._program))
        self._compile(last)
        end = len(self._program)
        for jump in jumps:
            self._program[jump] = _Split(end, end)

    def _compile_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._compile(node.part)
        if node.most is None:
            split = self._add(_Split(0, 0))
            self._compile(node.part)
            self._add(_Split(split, split))
            self._program[split] = _ordered(split + 1, len(self._program), node.is_lazy)
            return
        splits: list[int] = []
        for _ in range(node.most - node.least):
            splits.append(self._add(_Split(0, 0)))
            self._compile(node.part)
        for split in splits:
            self._program[split] = _ordered(split + 1, len(self._program), node.is_lazy)

    # -- the match

    def _run(self, text: str, start: int, *, whole: bool) -> Slots | None:
        """Return the slots of the match that begins at `start` and that Java prefers: start and end
        of each group, -1 for a group that took no part. `whole`: only a match up to the end."""
        found: Slots | None = None
        threads = self._reach([(0, (-1,) * (2 * self.groups + 2))], text, start)
        for at in range(start, len(text) + 1):
            letter = text[at] if at < len(text) else ""
            following: list[tuple[int, Slots]] = []
            for index, slots in threads:
                instruction = self._program[index]
                if isinstance(instruction, _Match):
                    if whole and letter:
                        continue
                    # Later threads are those that Java would have tried after this one.
                    found = slots
                    break
                assert isinstance(instruction, _Character)
                if letter and any(low <= letter <= high for low, high in instruction.ranges):
                    following.append((index + 1, slots))
            if not following:
                break
            threads = self._reach(following, text, at + 1)
        return found

    def _reach(
        self, starts: list[tuple[int, Slots]], text: str, at: int
    ) -> list[tuple[int, Slots]]:
        """Return the threads that wait for a character, or have matched, in Java's order."""
        reached: list[tuple[int, Slots]] = []
        seen: set[int] = set()
        left = starts[::-1]
        while left:
            index, slots = left.pop()
            if index in seen:
                continue
            seen.add(index)
            match self._program[index]:
                case _Split(first, second):
                    left += ((second, slots), (first, slots))
                case _Save(slot):
                    left.append((index + 1, (*slots[:slot], at, *slots[slot + 1 :])))
                case _Assert(edge):
                    if _holds(edge, text, at):
                        left.append((index + 1, slots))
                case _:
                    reached.append((index, slots))
        self._left -= len(seen) + 1
        if self._left < 0:
            raise TooCostly
        return reached


def _ordered(body: int, exit_at: int, is_lazy: bool) -> _Split:
    return _Split(exit_at, body) if is_lazy else _Split(body, exit_at)


def _holds(edge: str, text: str, at: int) -> bool:
    if edge == "^":
        return at == 0
    rest = text[at : at + 3]
    if edge == "z" or not rest:
        return not rest
    # `$` also holds before a line terminator that ends the text.
    inside = rest == "\n" and at > 0 and text[at - 1] == "\r"
    return not inside and rest in ("\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029")
