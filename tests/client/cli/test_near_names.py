"""The message for an unknown name suggests the most similar name. A call without a verb prints the
help once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from oncelog_client.cli import oncelog
from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        command_line = CommandLine(broker.address)
        command_line.text("produce", "customers", "--transactional-id", "billing-7", lines="a\n")
        seek = ("group", "seek", "reporting", "--topic", "customers", "--to", "start")
        command_line.text(*seek, "--execute")
        yield command_line


@pytest.mark.parametrize(
    ("call", "near"),
    [
        ("topic describe custmers", "customers"),
        ("topic offsets customers custmers", "customers"),
        ("topic trim custmers --before end", "customers"),
        ("topics --describe --topic custmers", "customers"),
        ("config --describe --topic custmers", "customers"),
        ("consume custmers -e", "customers"),
        ("txn blocking custmers", "customers"),
        ("group describe reportin", "reporting"),
        ("groups --describe --group reportin", "reporting"),
        ("txn describe billing-8", "billing-7"),
        ("txn abort billing-8", "billing-7"),
    ],
)
def test_the_nearest_name_is_suggested(here: CommandLine, call: str, near: str) -> None:
    assert f"Did you mean '{near}'?" in here.refused(*call.split())


def test_a_name_like_no_other_gets_no_suggestion(here: CommandLine) -> None:
    assert "Did you mean" not in here.refused("topic", "describe", "qqq")


def test_the_creation_of_a_topic_by_its_first_record_is_reported(here: CommandLine) -> None:
    made = here.call("produce", "custmers", lines="a\n")
    assert "created topic custmers. Did you mean 'customers'?" in made.stderr
    assert "created topic" not in here.call("produce", "custmers", lines="a\n").stderr
    here.text("topic", "delete", "custmers")


@pytest.mark.parametrize("words", [(), ("topic",)])
def test_a_call_without_a_verb_prints_the_help_once(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(oncelog, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("Usage:") == 1
    assert "Error" not in done.stderr


def test_the_message_for_a_missing_argument_lists_its_values_on_one_line() -> None:
    said = CliRunner().invoke(oncelog, ["completion"]).stderr
    assert "Choose from: bash, zsh, fish" in said
