"""The CSV files of `groups --reset-offsets --export` and `--from-file`."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from oncelog_client.cli.reset_plan import plan_text, read_plan
from oncelog_client.values import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan.csv"


def test_a_plan_of_several_groups_is_read_as_it_was_written(plan: Path) -> None:
    offsets = {"g1": {A0: 3, A1: 1 << 62}, 'a,"b"': {A0: 7}}
    plan.write_text(plan_text(offsets, single=False))
    assert read_plan(plan, None) == offsets


def test_a_plan_of_a_single_group_is_read_for_any_group(plan: Path) -> None:
    plan.write_text(plan_text({"g1": {A1: 4, A0: 3}}, single=True))
    assert plan.read_text() == "a,0,3\na,1,4\n"
    assert read_plan(plan, "g2") == {"g2": {A0: 3, A1: 4}}


def test_kafkas_tool_quotes_long_names_and_ends_with_an_empty_line(plan: Path) -> None:
    long = "a-group-of-more-than-24-characters"
    plan.write_text(f'"{long}",a,0,3\ng2,a,0,7\n\n')
    assert read_plan(plan, None) == {long: {A0: 3}, "g2": {A0: 7}}


def test_a_single_group_is_found_in_a_plan_of_several(plan: Path) -> None:
    plan.write_text("g1,a,0,3\ng2,a,0,7\n")
    assert read_plan(plan, "g2")["g2"] == {A0: 7}


@pytest.mark.parametrize(
    ("text", "single", "reason"),
    [
        ("a,0,3\n", None, "line 1: 'a,0,3' is not group,topic,partition,offset"),
        ("a,0,3\ng,a,0,3\n", "g", "line 2: 'g,a,0,3' is not topic,partition,offset"),
        ("g,a,0,3\na,0,3\n", "g", "line 2: 'a,0,3' is not group,topic,partition,offset"),
        ("a,0\n", "g", "line 1: 'a,0' is not topic,partition,offset"),
        ("a,0,-3\n", "g", "line 1: 'a,0,-3' is not topic,partition,offset"),
        (",0,3\n", "g", "line 1: ',0,3' is not topic,partition,offset"),
    ],
)
def test_an_invalid_line_is_named(plan: Path, text: str, single: str | None, reason: str) -> None:
    plan.write_text(text)
    with pytest.raises(click.UsageError) as refused:
        read_plan(plan, single)
    assert refused.value.message.endswith(reason)


def test_a_file_that_is_not_text_is_refused(plan: Path) -> None:
    plan.write_bytes(b"\xff")
    with pytest.raises(click.UsageError, match="not text in UTF-8"):
        read_plan(plan, None)
