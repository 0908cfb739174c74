"""Traces: scenarios as text. Each command is followed by its results.

    # A comment of one block, or of the command below it.
    end commit producer=1000/0
    ----
    taken Pending t PREPARE_COMMIT
    response to end: NONE producer=1000/1

A blank line ends a block. `ONCELOG_REWRITE_TRACES=1` rewrites the files with the current results,
so that a change of behaviour is a diff. The model is `testdata` of etcd's raft."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from oncelog_server.coordinator.shard import Effect, EffectRow, EffectTable
from oncelog_server.deferred import Deferred
from oncelog_server.topic_partition import TopicPartition

S = TypeVar("S")
T = TypeVar("T")

REWRITE: Final = "ONCELOG_REWRITE_TRACES"
LINE: Final = "----"
NOTHING: Final = "nothing"


class Command(msgspec.Struct):
    """A command `name word word setting=value`. The scenario must use every word and setting."""

    name: str
    words: list[str]
    settings: dict[str, str]

    @classmethod
    def parse(cls, line: str) -> Self:
        name, *parts = line.split()
        settings = dict(part.split("=", 1) for part in parts if "=" in part)
        return cls(name, [part for part in parts if "=" not in part], settings)

    def take(self, setting: str, default: str) -> str:
        return self.settings.pop(setting, default)

    def number(self, setting: str, default: int) -> int:
        return int(self.take(setting, str(default)))

    def word(self) -> str:
        return self.words.pop(0)

    def all_words(self) -> list[str]:
        taken, self.words = self.words, []
        return taken

    def check_taken(self) -> None:
        assert not self.words, f"{self.name} takes no {self.words}"
        assert not self.settings, f"{self.name} takes no {self.settings}"


Commands = Mapping[str, Callable[[Command], None]]
# The text of each effect, after its name. None means that the effect has no line, because the state
# and the responses show its result. A missing row is an error.
EffectTexts = Mapping[type[Effect], Callable[[Any], str] | None]


class Trace:
    """The result lines of the current command."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        self._lines.append(line)

    def taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines or [NOTHING]

    def effects(self, table: EffectTable[S], shown: EffectTexts) -> EffectTable[S]:
        """Return a copy of `table` with effects that also add a line to the trace each time they
        act."""

        def traced(action: Callable[..., None] | None, moment: str) -> Any:
            return None if action is None else partial(self._carry_out, action, moment, shown)

        return {
            effect: EffectRow(*(traced(action, moment) for moment, action in row._asdict().items()))
            for effect, row in table.items()
        }

    def _carry_out(
        self,
        action: Callable[..., None],
        moment: str,
        shown: EffectTexts,
        shard: object,
        effect: Effect,
        *code: int,
    ) -> None:
        text = shown[type(effect)]
        if text is not None:
            self.add(f"{moment} {type(effect).__name__} {text(effect)}".rstrip())
        action(shard, effect, *code)

    def response(self, name: str, answer: Deferred[T], shown: Callable[[T], str]) -> None:
        """Add a line when the response is sent. If the response is parked, add a line now too."""
        if not answer.done:
            self.add(f"parked {name}")
        answer.on_complete(lambda value: self.add(f"response to {name}: {shown(value)}"))


class TracedLog(list[T]):
    """A log in memory that calls `on_append` with each entry before it is added."""

    def __init__(self, on_append: Callable[[T], None]) -> None:
        super().__init__()
        self._on_append = on_append

    def append(self, entry: T) -> None:
        self._on_append(entry)
        super().append(entry)

    def __iadd__(self, entries: Iterable[T]) -> Self:  # type: ignore[override, misc]  # as list
        for entry in entries:
            self.append(entry)
        return self


def partition_of(word: str) -> TopicPartition:
    """Return the partition that `orders-0` names."""
    topic, number = word.rsplit("-", 1)
    return TopicPartition(topic, int(number))


def replayed(text: str, commands: Commands, trace: Trace) -> str:
    """Return `text` with the current results of its commands."""
    return "\n\n".join(_replayed_block(block, commands, trace) for block in _blocks(text)) + "\n"


def _blocks(text: str) -> list[str]:
    return [block.strip("\n") for block in text.split("\n\n") if block.strip()]


def _replayed_block(block: str, commands: Commands, trace: Trace) -> str:
    lines = block.split("\n")
    comments = [line for line in lines if line.startswith("#")]
    if len(comments) == len(lines):
        return block
    line = lines[len(comments)]
    command = Command.parse(line)
    commands[command.name](command)
    command.check_taken()
    return "\n".join([*comments, line, LINE, *trace.taken()])


def rewritten(path: Path, commands: Commands, trace: Trace) -> tuple[str, str]:
    """Return the contents of the file, and its contents with the current results. Rewrite the file
    if the environment variable is set."""
    expected = path.read_text(encoding="utf-8")
    found = replayed(expected, commands, trace)
    if os.environ.get(REWRITE) and found != expected:
        path.write_text(found, encoding="utf-8")
        expected = found
    return expected, found
