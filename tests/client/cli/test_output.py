"""Output as tables on a terminal, as columns in a pipe, and as JSON and CSV for scripts."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import pytest

from oncelog_client.cli.output import Column, show
from oncelog_client.cli.progress import Progress

COLUMNS = (
    Column("Group", "id"),
    Column("Lag", "count"),
    Column("Current-offset", "offset", rank=1),
    Column("Topic partitions", "partitions", rank=2),
)
ROWS = [("g", 12, None, ["t-0", "t-1", "t-3", "s-0"]), ("[longer]", 3, 7, [])]
HOSTILE = "a\x1b[2J\r\n\x9b\u202eb\ud800"


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that shows a table on a terminal with this number of columns, and returns
    the output."""

    def shown(width: int, *arguments: object, output: str = "table", empty: str = "") -> str:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("COLUMNS", str(width))
        show(*arguments, output=output, empty=empty)  # type: ignore[arg-type]  # untyped tables
        return terminal.getvalue()

    return shown


def test_json_keeps_types_and_names_columns_in_snake_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(COLUMNS, ROWS, output="json")
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "group": "g",
        "lag": 12,
        "current_offset": None,
        "topic_partitions": ["t-0", "t-1", "t-3", "s-0"],
    }
    assert second["topic_partitions"] == []


def test_csv_has_the_names_and_units_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    show([*COLUMNS[:3], Column("Age ms", "duration")], [("a,b", 1, None, 61_000)], output="csv")
    assert capsys.readouterr().out.splitlines() == [
        "group,lag,current_offset,age_ms",
        '"a,b",1,,61000',
    ]


def test_a_pipe_gets_aligned_columns_with_dashes_for_empty_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(COLUMNS, ROWS, output="table")
    assert capsys.readouterr().out.splitlines() == [
        "GROUP     LAG  CURRENT-OFFSET  TOPIC PARTITIONS",
        "g         12   -               t-0,t-1,t-3,s-0",
        "[longer]  3    7               -",
    ]


def test_a_terminal_gets_a_table_and_brackets_are_not_markup(
    on_terminal: Callable[..., str],
) -> None:
    assert on_terminal(80, COLUMNS, ROWS).splitlines() == [
        "Group     Lag  Current-offset  Topic partitions",
        "────────  ───  ──────────────  ────────────────",
        "g          12               -  t:0-1,3,s:0",
        "[longer]    3               7  -",
    ]


def test_columns_that_do_not_fit_are_left_out_and_a_line_names_them(
    on_terminal: Callable[..., str],
) -> None:
    shown = on_terminal(30, COLUMNS, ROWS)
    assert shown.splitlines() == [
        "Group     Lag  Current-offset",
        "────────  ───  ──────────────",
        "g          12               -",
        "[longer]    3               7",
        "not shown: Topic partitions (--output wide shows all)",
    ]
    assert "t:0-1" in on_terminal(30, COLUMNS, ROWS, output="wide")


def test_if_no_column_can_be_left_out_each_row_becomes_a_block(
    on_terminal: Callable[..., str],
) -> None:
    long = "x" * 60
    shown = on_terminal(64, COLUMNS, [(long, 12, 3, ["t-0"])])
    assert shown.splitlines() == [
        "Group",
        f"    {long}",
        "Lag               12",
        "Current-offset    3",
        "Topic partitions  t:0",
    ]


@pytest.mark.parametrize("width", [1, 20, 40, 80, 120, 160, 200])
def test_no_identifier_and_no_word_of_a_heading_is_broken(
    on_terminal: Callable[..., str], width: int
) -> None:
    identifiers = [f"{letter * 59}{number}" for letter in "ab" for number in range(3)]
    rows = [(name, 1, 2, [f"{name}-0", f"{name[::-1]}-1"]) for name in identifiers]
    shown = on_terminal(width, COLUMNS, rows)
    for name in identifiers:
        assert name in shown
    for column in COLUMNS:
        for word in column.title.split():
            assert word in shown


def test_an_empty_table_is_a_message_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(COLUMNS, [], output="table", empty="no groups")
    assert capsys.readouterr() == ("", "no groups\n")
    show(COLUMNS, [], output="json", empty="no groups")
    assert capsys.readouterr() == ("[]\n", "")
    show(COLUMNS[:2], [], output="csv", empty="no groups")
    assert capsys.readouterr() == ("group,lag\n", "")


@pytest.mark.parametrize("output", ["table", "wide", "json", "csv"])
@pytest.mark.parametrize("kind", ["id", "text"])
def test_control_characters_of_an_identifier_reach_no_terminal(
    on_terminal: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    output: str,
    kind: str,
) -> None:
    columns = (Column("Group", kind), Column("Client", kind))  # type: ignore[arg-type]  # a str
    shown = on_terminal(80, columns, [(HOSTILE, {HOSTILE: [HOSTILE]})], output=output)
    for line in shown.splitlines():
        assert line.isprintable(), line
    if output == "json":
        assert json.loads(shown)[0]["group"] == HOSTILE
    else:
        assert "a\\x1b[2J\\r\\n\\x9b\\u202eb\\ud800" in shown


def test_an_identifier_of_thousands_of_characters_is_cut_only_in_a_table(
    on_terminal: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    long = "y" * 30_000
    rows = [(long, 1, 2, None), ("g", 1, 2, None)]
    assert "y" * 254 + "…" in on_terminal(80, COLUMNS, rows)
    assert long not in on_terminal(80, COLUMNS, rows)
    assert long in on_terminal(80, COLUMNS, rows, output="json")


def test_in_a_pipe_a_long_identifier_is_whole_and_pads_no_other_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "y" * 30_000
    show(COLUMNS, [(long, 1, 2, []), ("g", 1, 2, [])], output="table")
    shown = capsys.readouterr().out
    assert long in shown
    assert len(shown) < 31_500


def test_a_table_has_durations_and_times_and_json_has_milliseconds(
    on_terminal: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (Column("Age ms", "duration"), Column("Since ms", "time"), Column("Held", "size"))
    rows = [(590_000, 0, 1_843)]
    shown = on_terminal(80, columns, rows)
    assert "9 m 50 s" in shown
    assert "1.8 KiB" in shown
    assert "1970-01-01" in shown or "1969-12-31" in shown
    assert " ms" not in shown
    assert '"age_ms":590000,"since_ms":0' in on_terminal(80, columns, rows, output="json")


def test_wide_characters_take_two_columns(on_terminal: Callable[..., str]) -> None:
    shown = on_terminal(80, COLUMNS[:2], [("日本", 1), ("abcd", 2)])
    assert shown.splitlines()[2:] == ["日本     1", "abcd     2"]


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
