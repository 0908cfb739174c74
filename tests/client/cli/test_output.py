"""Tables for people, columns for pipes, JSON for scripts."""

from __future__ import annotations

import io
import json
import sys

import pytest

from oncelog_client.cli.output import Progress, show

COLUMNS = ("Group", "Lag", "Current-offset", "Topic partitions")
ROWS = [("g", 12, None, ["t-0", "t-1"]), ("[longer]", 3, 7, [])]


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def test_json_keeps_types_and_names_columns_in_snake_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(COLUMNS, ROWS, as_json=True)
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "group": "g",
        "lag": 12,
        "current_offset": None,
        "topic_partitions": ["t-0", "t-1"],
    }
    assert second["topic_partitions"] == []


def test_a_pipe_gets_aligned_columns_and_dashes_for_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(COLUMNS, ROWS, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "GROUP     LAG  CURRENT-OFFSET  TOPIC PARTITIONS",
        "g         12   -               t-0,t-1",
        "[longer]  3    7               -",
    ]


def test_a_terminal_gets_a_table_and_brackets_are_not_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    show(COLUMNS, ROWS, as_json=False, title="Groups")
    assert "Groups" in terminal.getvalue()
    assert "[longer]" in terminal.getvalue()
    assert "─" in terminal.getvalue()


def test_progress_is_silent_in_a_pipe_and_drawn_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream, drawn in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("records read", io.StringIO(), total=10) as progress:
            progress.advance(5)
        assert bool(stream.getvalue()) is drawn


def test_progress_does_not_write_between_records_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("records read", terminal) as progress:
        progress.advance(5)
    assert terminal.getvalue() == ""
