"""The reader of traces (`traces.py`): comparison, rewriting and errors. A trace is a text file of
commands, each with its expected results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.traces import NOTHING, REWRITE, Command, Trace, replayed, rewritten

TEXT = "# A page.\n\n# A comment.\nsay b name=a\n----\na: b\n"


class Speaker:
    def __init__(self) -> None:
        self.trace = Trace()
        self.commands = {"say": self.say, "wait": lambda command: None}

    def say(self, command: Command) -> None:
        self.trace.add(f"{command.take('name', 'x')}: {command.word()}")

    def replayed(self, text: str) -> str:
        return replayed(text, self.commands, self.trace)


def test_a_correct_trace_stays_unchanged() -> None:
    assert Speaker().replayed(TEXT) == TEXT


@pytest.mark.parametrize("line", ["a: c", "a: b\na: b", NOTHING])
def test_comments_and_commands_stay_and_results_are_replaced(line: str) -> None:
    assert Speaker().replayed(TEXT.replace("a: b", line)) == TEXT


def test_the_result_of_a_command_without_output_is_the_word_nothing() -> None:
    assert Speaker().replayed("wait\n") == f"wait\n----\n{NOTHING}\n"


@pytest.mark.parametrize("line", ["say b other=a", "say b c", "wait b", "shout b"])
def test_a_command_that_is_misspelled_is_refused(line: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        Speaker().replayed(line)


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_trace_file_is_rewritten_only_if_the_environment_variable_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrites: bool
) -> None:
    path = tmp_path / "scenario.txt"
    stale = TEXT.replace("a: b", "a: c")
    path.write_text(stale, encoding="utf-8")
    monkeypatch.delenv(REWRITE, raising=False)
    if rewrites:
        monkeypatch.setenv(REWRITE, "1")
    speaker = Speaker()
    expected, found = rewritten(path, speaker.commands, speaker.trace)
    assert found == TEXT
    assert (expected == found) is rewrites
    assert path.read_text(encoding="utf-8") == (TEXT if rewrites else stale)
