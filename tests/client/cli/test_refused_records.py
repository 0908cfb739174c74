"""A record that the broker refuses is not written, and the command does not report it as
uncertain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield CommandLine(broker.address)


@pytest.mark.parametrize(
    ("setting", "lines", "reason", "refused"),
    [
        ("cleanup.policy=compact", "a\nb\n", "Compacted topic cannot accept message", 2),
        ("max.message.bytes=100", "x" * 500, "a batch of", 1),
    ],
)
def test_refused_records_are_counted_as_refused(
    here: CommandLine, name: str, setting: str, lines: str, reason: str, refused: int
) -> None:
    here.text("topic", "create", name, "-p", "1", "-c", setting)
    said = here.refused("produce", name, lines=lines)
    assert f"0 records written to {name}, {refused} refused" in said
    assert "unknown" not in said
    assert said.count(reason) == 1, "the reason is printed once"
    assert here.json("topic", "offsets", name)[0]["end"] == 0


def test_records_that_were_written_before_a_refused_one_are_counted(
    here: CommandLine, name: str
) -> None:
    here.text("topic", "create", name, "-p", "1", "-c", "cleanup.policy=compact")
    null = ("--property", "parse.key=true", "--property", "null.marker=-")
    said = here.refused("produce", name, "--sync", *null, lines="a\t1\n-\t2\nb\t3\n")
    assert f"1 record written to {name}, 1 refused" in said
